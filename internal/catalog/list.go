package catalog

import (
	"context"

	"github.com/lethe-project/lethe/internal/sqldb"
)

const listTabulars sqldb.Statement = "SELECT name FROM tabulars WHERE namespace_id = ? AND kind = ? AND name > ? ORDER BY name LIMIT ?"

// Page is a place in a list: what comes after a name, at most Limit entries. The zero
// Page is everything; a next Page with an empty After means that the list ended.
type Page struct {
	After string
	Limit int // 0 means all
}

// pageMax is how many rows one statement reads.
const pageMax = 5000

// ListTables returns the names of a namespace's tables in byte order.
func (c *Catalog) ListTables(ctx context.Context, call Call, n Namespace, page Page) ([]string, Page, error) {
	return c.listKind(ctx, "catalog.ListTables", call, KindTable, n, page)
}

func (c *Catalog) listKind(ctx context.Context, op string, call Call, kind Kind, n Namespace, page Page) ([]string, Page, error) {
	if err := n.check(op); err != nil {
		return nil, Page{}, err
	}
	row, err := namespace(ctx, c.db, readNamespace, op, call.Warehouse.ID, n)
	if err != nil {
		return nil, Page{}, err
	}
	return c.list(ctx, listTabulars, page, row.id, kind)
}

// list reads names by keyset, in statements of at most pageMax rows.
func (c *Catalog) list(ctx context.Context, s sqldb.Statement, page Page, args ...any) ([]string, Page, error) {
	names := []string{}
	after := page.After
	for {
		want := pageMax
		if page.Limit > 0 {
			want = min(want, page.Limit-len(names)+1) // one more tells whether there is a next page
		}
		got, err := c.names(ctx, s, append(append([]any{}, args...), after, want))
		if err != nil {
			return nil, Page{}, err
		}
		names = append(names, got...)
		if page.Limit > 0 && len(names) > page.Limit {
			names = names[:page.Limit]
			return names, Page{After: names[page.Limit-1], Limit: page.Limit}, nil
		}
		if len(got) < want {
			return names, Page{}, nil
		}
		after = got[len(got)-1]
	}
}

func (c *Catalog) names(ctx context.Context, s sqldb.Statement, args []any) ([]string, error) {
	rows, err := c.db.Query(ctx, s, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	return out, rows.Err()
}
