package concurrency

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// page is one page of a list of tables or views.
type page struct {
	Identifiers []struct {
		Namespace []string
		Name      string
	}
	Next *string `json:"next-page-token"`
}

// TestListWhileTablesComeAndGo reads a list page by page, over and over, while 1,000
// tables are created and dropped among 200 that stay. No
// entry that stays is missed, none is there twice: no name comes back after it went.
func TestListWhileTablesComeAndGo(t *testing.T) {
	t.Parallel()
	const writers, readers = 8, 3
	stay, churn := 200, 1000**scale
	onEach(t, func(t *testing.T, w *world) {
		every := churn / stay
		var kept []string
		for i := range stay {
			kept = append(kept, fmt.Sprintf("t%07d-stays", i*every))
		}
		w.all(t, writers, func(ctx context.Context, c *client) error {
			for i := c.number; i < stay; i += writers {
				if err := c.createTable(ctx, kept[i]); err != nil {
					return err
				}
			}
			return nil
		})

		var running, lists, most atomic.Int64
		running.Store(writers)
		w.all(t, writers+readers, func(ctx context.Context, c *client) error {
			if c.number < writers {
				defer running.Add(-1)
				return c.comeAndGo(ctx, c.number, writers, churn)
			}
			for size := []int{7, 50, 190}[c.number-writers]; running.Load() > 0; {
				names, err := c.list(ctx, size)
				if err != nil {
					return err
				}
				if err := whole(names, kept); err != nil {
					return fmt.Errorf("by pages of %d: %w", size, err)
				}
				lists.Add(1)
				for n := int64(len(names)); n > most.Load(); {
					most.Store(n)
				}
			}
			return nil
		})
		t.Logf("%d lists were read, with up to %d names", lists.Load(), most.Load())
		if lists.Load() < 2*readers || most.Load() <= int64(stay) {
			t.Errorf("the lists did not meet tables that come and go")
		}
		names, err := w.one(t).list(t.Context(), 50)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		if diff := cmp.Diff(kept, names); diff != "" {
			t.Errorf("in the end (-want +got):\n%s", diff)
		}
	})
}

func (c *client) createTable(ctx context.Context, name string) error {
	_, err := c.send(ctx, http.MethodPost, tables, object{"name": name, "schema": schema}, nil, http.StatusOK)
	return err
}

// comeAndGo creates the writer's share of the tables, and drops each when some more have
// come.
func (c *client) comeAndGo(ctx context.Context, writer, writers, churn int) error {
	var there []string
	for i := writer; i < churn; i += writers {
		name := fmt.Sprintf("t%07d", i)
		if err := c.createTable(ctx, name); err != nil {
			return err
		}
		if there = append(there, name); len(there) < 12 && i+writers < churn {
			continue
		}
		for len(there) > 6 || i+writers >= churn && len(there) > 0 {
			if _, err := c.send(ctx, http.MethodDelete, tables+"/"+there[0], nil, nil, http.StatusNoContent); err != nil {
				return err
			}
			there = there[1:]
		}
	}
	return nil
}

// list reads the whole list, page by page.
func (c *client) list(ctx context.Context, size int) (names []string, err error) {
	for token := new(string); token != nil; {
		var p page
		path := fmt.Sprintf("%s?pageSize=%d&pageToken=%s", tables, size, url.QueryEscape(*token))
		if _, err := c.send(ctx, http.MethodGet, path, nil, &p, http.StatusOK); err != nil {
			return nil, err
		}
		if len(p.Identifiers) > size {
			return nil, fmt.Errorf("a page of %d has %d names", size, len(p.Identifiers))
		}
		for _, id := range p.Identifiers {
			names = append(names, id.Name)
		}
		token = p.Next
	}
	return names, nil
}

// whole returns what is wrong with a list.
func whole(names, kept []string) error {
	seen := map[string]int{}
	for _, name := range names {
		seen[name]++
		if seen[name] > 1 {
			return fmt.Errorf("%s is there twice", name)
		}
	}
	for _, name := range kept {
		if seen[name] == 0 {
			return fmt.Errorf("%s is missed", name)
		}
	}
	return nil
}
