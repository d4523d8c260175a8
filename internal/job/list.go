package job

import (
	"context"
	"errors"
	"strings"

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
	text, args := s.listing(f, p)
	list, err = s.rows(ctx, s.db, text, args...)
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

// listing is the SELECT of a page. The domain's columns are compared before the state:
// an index on (columns, state, id) then holds the page in its order.
func (s *Store) listing(f Filter, p Page) (text sqldb.Statement, args []any) {
	var where []string
	equal := func(column string, value any) {
		where, args = append(where, "{q:"+column+"} = ?"), append(args, value)
	}
	for _, e := range f.Extra {
		equal(e.Column, e.Value)
	}
	if f.State != "" {
		equal("state", string(f.State))
	}
	if p.Before != 0 {
		where, args = append(where, "id < ?"), append(args, int64(p.Before))
	}
	query := "SELECT " + rowColumns + " FROM " + s.table.Name
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	// One row more than asked for says whether there is a next page.
	return sqldb.Statement(query + " ORDER BY id DESC LIMIT ?"), append(args, p.Limit+1)
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
