package job

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// Insert adds a PENDING job inside the transaction that makes it necessary. After the
// commit the caller calls Wake, or Runner.Wait.
func (s *Store) Insert(ctx context.Context, tx *sqldb.Tx, n New) (ID, error) {
	progress := string(n.Progress)
	if progress == "" {
		progress = "{}"
	}
	var columns, places strings.Builder
	args := []any{n.Delay.Milliseconds(), n.RequestID, progress, n.CreatedBy}
	for _, e := range n.Extra {
		columns.WriteString(", {q:" + e.Column + "}")
		places.WriteString(", ?")
		args = append(args, e.Value)
	}
	// The domain's columns are the same in every call, so this is one text too.
	id, err := tx.InsertID(ctx, sqldb.Statement(`INSERT INTO `+s.table.Name+` (state, attempts, stale_reclaims, lease_epoch, owner, available_at, paused,
		request_id, last_error, phase, {q:cursor}, progress, created_by, created_at, updated_at`+columns.String()+`)
		VALUES ('PENDING', 0, 0, 0, '', {now} + ?, 0, ?, '', '', '', ?, ?, {now}, {now}`+places.String()+`)`), args...)
	return ID(id), err
}

const findRequest sqldb.Statement = `SELECT {row} FROM {table_name} WHERE request_id = ? {for update}`

// FindByRequest returns the job that a request made, locked, to read back an ambiguous
// commit; false when there is none.
func (s *Store) FindByRequest(ctx context.Context, tx *sqldb.Tx, requestID string) (Row, bool, error) {
	row, err := scan(tx.QueryRow(ctx, s.text[findRequest], requestID))
	if errors.Is(err, sql.ErrNoRows) {
		return Row{}, false, nil
	}
	return row, err == nil, err
}
