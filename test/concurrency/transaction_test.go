package concurrency

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A transaction leaves its id in every table that it changes, with the list of these
// tables: as a property, or in the summary of a snapshot that also says the table's
// balance afterwards. The snapshots of one transaction move units from table to table:
// all balances together are always 0.
const (
	inAll   = 6        // tables
	txKey   = "tx-"    // of a property, before the id
	idKey   = "tx"     // in a summary
	members = "tables" // in a summary
	balance = "balance"
)

func tableName(i int) string { return fmt.Sprint("t", i) }

// TestTransactionsOverCrossingTables lets all clients commit transactions over two or
// three of six tables, while readers look. Whoever sees a transaction in one table sees
// it in every other of its tables that is read afterwards; nothing acknowledged is lost,
// nothing refused is applied, not even in part.
func TestTransactionsOverCrossingTables(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		for i := range inAll {
			w.one(t).create(t, tableName(i))
		}
		const readers = 3
		var running, refused, reads, cuts atomic.Int64
		running.Store(clients)
		var mu sync.Mutex
		acknowledged := map[string]string{} // id: tables
		w.all(t, clients+readers, func(ctx context.Context, c *client) error {
			random := rand.New(rand.NewPCG(1, uint64(c.number)))
			if c.number >= clients {
				for running.Load() > 0 {
					consistent, err := c.look(ctx, random)
					if err != nil {
						return err
					}
					reads.Add(1)
					if consistent {
						cuts.Add(1)
					}
				}
				return nil
			}
			defer running.Add(-1)
			id := int64(c.number+1) * 1_000_000
			for done := 0; done < 5**scale; id++ { // an id for each try
				among := random.Perm(inAll)[:2+random.IntN(2)]
				status, err := c.transact(ctx, id, among, done%2 == 0)
				if err != nil {
					return err
				}
				if status == http.StatusConflict {
					refused.Add(1)
					continue
				}
				done++
				mu.Lock()
				acknowledged[fmt.Sprint(id)] = join(among)
				mu.Unlock()
			}
			return nil
		})
		t.Logf("%d transactions were acknowledged, %d refused; %d readers' rounds, %d of them without a change between", len(acknowledged), refused.Load(), reads.Load(), cuts.Load())

		want, got, sum := map[string]map[string]string{}, map[string]map[string]string{}, 0
		for i := range inAll {
			name := tableName(i)
			want[name] = map[string]string{}
			for id, tables := range acknowledged {
				if slices.Contains(strings.Split(tables, ","), name) {
					want[name][id] = tables
				}
			}
			now, err := w.one(t).load(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			units := 0
			if got[name], units, err = transactions(&now); err != nil {
				t.Fatal(err)
			}
			sum += units
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("transactions by table (-acknowledged +table):\n%s", diff)
		}
		if sum != 0 {
			t.Errorf("%d units came from nowhere", sum)
		}
	})
}

func join(tables []int) string {
	names := make([]string, len(tables))
	for i, table := range tables {
		names[i] = tableName(table)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// transact commits one transaction: under the condition that no table has moved on since
// it was read, or without any.
func (c *client) transact(ctx context.Context, id int64, among []int, conditional bool) (int, error) {
	var changes []any
	for i, table := range among {
		name := tableName(table)
		change := sets(fmt.Sprint(txKey, id), join(among))
		if conditional {
			now, err := c.load(ctx, name)
			if err != nil {
				return 0, err
			}
			_, units, err := transactions(&now)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", name, err)
			}
			moved := 1
			if i == 0 {
				moved = 1 - len(among)
			}
			change = now.appends(id*10+int64(table), map[string]string{
				"operation": "append", idKey: fmt.Sprint(id), members: join(among), balance: fmt.Sprint(units + moved),
			})
		}
		change["identifier"] = identifier(name)
		changes = append(changes, change)
	}
	return c.send(ctx, http.MethodPost, v1+"/transactions/commit", object{"table-changes": changes}, nil, http.StatusNoContent, http.StatusConflict)
}

// transactions returns the transactions that a table has seen, with their tables, and
// its balance.
func transactions(l *loaded) (seen map[string]string, units int, err error) {
	seen = map[string]string{}
	for key, tables := range l.Metadata.Properties {
		if id, ok := strings.CutPrefix(key, txKey); ok {
			seen[id] = tables
		}
	}
	chain, err := l.chain()
	if err != nil {
		return nil, 0, err
	}
	for _, s := range chain {
		seen[s.Summary[idKey]] = s.Summary[members]
	}
	if len(chain) > 0 {
		units, err = strconv.Atoi(chain[0].Summary[balance])
	}
	return seen, units, err
}

// look reads all tables twice, in an order of its own, and returns whether nothing changed
// between: then all that was read stood at one moment.
func (c *client) look(ctx context.Context, random *rand.Rand) (consistent bool, err error) {
	seen := map[string]string{} // by the tables read so far: id, tables
	first := map[string]string{}
	sum := 0
	order := random.Perm(inAll)
	consistent = true
	for step, table := range slices.Concat(order, order) {
		c.server = c.servers[random.IntN(len(c.servers))]
		name := tableName(table)
		now, err := c.load(ctx, name)
		if err != nil {
			return false, err
		}
		has, units, err := transactions(&now)
		if err != nil {
			return false, fmt.Errorf("%s: %w", name, err)
		}
		for id, tables := range seen {
			if _, ok := has[id]; !ok && slices.Contains(strings.Split(tables, ","), name) {
				return false, fmt.Errorf("transaction %s of tables %s was seen before, but then not in %s", id, tables, name)
			}
		}
		maps.Copy(seen, has)
		if step < inAll {
			first[name] = now.MetadataLocation
			sum += units
		} else if first[name] != now.MetadataLocation {
			consistent = false
		}
	}
	if consistent && sum != 0 {
		return false, fmt.Errorf("the balances of one moment make %d, want 0", sum)
	}
	return consistent, nil
}
