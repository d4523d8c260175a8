package job

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// Filter chooses rows; the zero value means all.
type Filter struct {
	State State   // empty: any
	Extra []Extra // the domain's own columns, each equal to its value
}

// Page is one page of a list, newest job first.
type Page struct {
	Before ID  // rows older than this one; 0 starts at the newest
	Limit  int // 100, at most 1000
}

// List returns a page of rows, and the Page that goes on after it (Before is 0 at the end).
func (s *Store) List(ctx context.Context, f Filter, p Page) (list []Row, next Page, err error) {
	if p.Limit <= 0 {
		p.Limit = 100
	}
	p.Limit = min(p.Limit, 1000)
	var where []string
	var args []any
	equal := func(column string, value any) {
		where, args = append(where, "{q:"+column+"} = ?"), append(args, value)
	}
	if f.State != "" {
		equal("state", string(f.State))
	}
	for _, e := range f.Extra {
		equal(e.Column, e.Value)
	}
	if p.Before != 0 {
		where, args = append(where, "id < ?"), append(args, int64(p.Before))
	}
	text := "SELECT " + rowColumns + " FROM " + s.table.Name
	if len(where) > 0 {
		text += " WHERE " + strings.Join(where, " AND ")
	}
	// One row more than asked for says whether there is a next page.
	list, err = s.rows(ctx, s.db, sqldb.Statement(text+" ORDER BY id DESC LIMIT ?"), append(args, p.Limit+1)...)
	if err != nil {
		return nil, Page{}, err
	}
	next.Limit = p.Limit
	if len(list) > p.Limit {
		list = list[:p.Limit]
		next.Before = list[p.Limit-1].ID
	}
	return list, next, nil
}

func (s *Store) rows(ctx context.Context, from sqldb.Reader, text sqldb.Statement, args ...any) (list []Row, err error) {
	rows, err := from.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// Gauges is the table at one moment.
type Gauges struct {
	Jobs          map[State]int64 // every state is there
	OldestPending time.Duration   // how long the oldest PENDING job could have run; 0 when none could
}

const gauges sqldb.Statement = `SELECT state, COUNT(*), MIN(available_at), {now} FROM {table_name} GROUP BY state`

// Gauges counts the jobs; the index (state, available_at) answers it alone.
func (s *Store) Gauges(ctx context.Context) (g Gauges, err error) {
	g.Jobs = map[State]int64{Pending: 0, Running: 0, Succeeded: 0, Failed: 0, Cancelled: 0}
	rows, err := s.db.Query(ctx, s.text[gauges])
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var state State
		var n, oldest, now int64
		if err := rows.Scan(&state, &n, &oldest, &now); err != nil {
			return g, err
		}
		g.Jobs[state] = n
		if state == Pending {
			g.OldestPending = time.Duration(max(0, now-oldest)) * time.Millisecond
		}
	}
	return g, rows.Err()
}
