package content

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	selectStorage sqldb.Statement = "SELECT root, marker FROM drive_storage WHERE id = 1"
	insertStorage sqldb.Statement = "INSERT INTO drive_storage (id, root, marker) VALUES (1, ?, ?)"
)

// Claim makes root, the URI of the bucket, the place of all contents, or refuses another
// one than before: what was written would be out of reach, and look deleted.
func (s *Store) Claim(ctx context.Context, root string) error {
	known, mark, err := s.storage(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		if mark, err = s.mark(ctx); err != nil {
			return fmt.Errorf("mark %s: %w", root, err)
		}
		if _, err = s.db.Exec(ctx, insertStorage, root, mark); s.db.Dialect().Classify(err) == sqldb.ClassUnique {
			err = nil // another server was faster
		}
		if err == nil {
			known, mark, err = s.storage(ctx)
		}
	}
	if err != nil {
		return err
	}
	if known != root {
		return fmt.Errorf("the contents of drives lie under %s, not under %s: start with that storage, or with another database", known, root)
	}
	s.root.Store(&mark)
	return s.CheckStorage(ctx)
}

func (s *Store) storage(ctx context.Context) (root, mark string, err error) {
	err = s.db.QueryRow(ctx, selectStorage).Scan(&root, &mark)
	return root, mark, err
}

// mark marks the root, if it is one that can be mistaken for an empty one.
func (s *Store) mark(ctx context.Context) (string, error) {
	if marked, ok := s.cfg.Bucket.(blob.Marked); ok {
		return marked.MakeMarker(ctx)
	}
	return "", nil
}

// CheckStorage reports a root that is away, as trouble of the store as a whole.
func (s *Store) CheckStorage(ctx context.Context) error {
	known := s.root.Load()
	marked, ok := s.cfg.Bucket.(blob.Marked)
	if !ok || known == nil || *known == "" {
		return nil
	}
	mark, err := marked.Marker(ctx)
	if err != nil && !blob.IsNotExist(err) {
		return err
	}
	if mark != *known {
		return &blob.Error{Op: "marker", Class: blob.Unavailable, Err: errors.New("the drives' storage is not the one that was used before (its file .lethe-root is missing or another one): is its disk mounted?")}
	}
	return nil
}
