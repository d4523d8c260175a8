package catalog_test

import (
	"fmt"
	"sync"
	"testing"
)

// Clients that all commit to one table get through, and few of them write files in vain.
func TestCommitsToOneTableTakeTurns(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		const clients, commits = 20, 3
		id := ident(b.namespace("n"), "t")
		b.create(id)
		before := b.db.Statements()
		errs := make(chan error, clients*commits)
		var wg sync.WaitGroup
		for client := range clients {
			set := make([]func() error, commits)
			for i := range set {
				commit := b.set(fmt.Sprintf("k-%d-%d", client, i), "v")
				set[i] = func() error { return b.apply(b.call(), id, commit) }
			}
			wg.Go(func() {
				for _, do := range set {
					errs <- do()
				}
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			b.must(err)
		}
		// A commit is three statements, and so is one that loses: without turns each of the
		// twenty loses to most of the others.
		if sent, most := b.db.Statements()-before, int64(2*3*clients*commits); sent > most {
			b.t.Errorf("%d statements, want at most %d", sent, most)
		}
		loaded, err := b.cat.LoadTable(b.t.Context(), b.call(), id)
		b.must(err)
		if got := len(loaded.Table.Properties()); got < clients*commits {
			b.t.Errorf("%d properties, want %d", got, clients*commits)
		}
		b.invariants()
	})
}
