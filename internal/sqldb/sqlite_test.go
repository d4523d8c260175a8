package sqldb_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// Writers are served in the order in which they came, and one that gives up leaves the
// queue.
func TestSQLiteWritersQueue(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lethe.db")
	synctest.Test(t, func(t *testing.T) {
		db, err := sqldb.Open(t.Context(), "sqlite:"+path, sqldb.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if err := db.Migrate(t.Context(), things); err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := db.Tx(t.Context(), func(*sqldb.Tx) error { <-release; return nil }); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		gaveUp := errors.New("gave up")
		ctx, giveUp := context.WithCancelCause(t.Context())
		var served, want []int
		for i := range 20 {
			wg.Go(func() {
				with := t.Context()
				if i == 7 {
					with = ctx
				}
				err := db.Tx(with, func(tx *sqldb.Tx) error {
					served = append(served, i) // one at a time
					return nil
				})
				if i == 7 && !errors.Is(err, gaveUp) || i != 7 && err != nil {
					t.Errorf("writer %d: %v", i, err)
				}
			})
			synctest.Wait() // it stands in the queue
			want = append(want, i)
		}
		giveUp(gaveUp)
		synctest.Wait()
		close(release)
		wg.Wait()
		if diff := cmp.Diff(slices.Delete(want, 7, 8), served); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A reader does not wait for the writer and does not see what was not committed.
func TestSQLiteReadsBesideTheWriter(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "lethe.db")
	db, err := sqldb.Open(t.Context(), url, sqldb.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.Migrate(t.Context(), things); err != nil {
		t.Fatal(err)
	}
	err = db.Tx(t.Context(), func(tx *sqldb.Tx) error {
		if _, err := tx.Exec(t.Context(), insertThing, "a", 1); err != nil {
			return err
		}
		if n := count(t, db, "a"); n != 0 {
			t.Errorf("%d uncommitted rows seen", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, db, "a"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

func TestSQLiteFileHasOneServer(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "new folder", "le the#?%.db")
	first, err := sqldb.Open(t.Context(), url, sqldb.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqldb.Open(t.Context(), url, sqldb.Config{}); !errors.Is(err, sqldb.ErrLocked) {
		t.Errorf("a second server: %v, want ErrLocked", err)
	}
	if err := first.Migrate(t.Context(), things); err != nil {
		t.Fatal(err)
	}
	exec(t, first, insertThing, "a", 1)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := sqldb.Open(t.Context(), url, sqldb.Config{})
	if err != nil {
		t.Fatalf("after the first one closed: %v", err)
	}
	defer func() { _ = second.Close() }()
	if n := count(t, second, "a"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "sqlite:", "oracle://u@h/x", "lethe.db"} {
		if _, err := sqldb.Open(t.Context(), url, sqldb.Config{}); err == nil {
			t.Errorf("%q is accepted", url)
		}
	}
}
