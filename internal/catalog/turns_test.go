package catalog

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTurnsAreServedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var q turns
		k, other := turnKey{1, "t"}, turnKey{2, "t"}
		if q.contended(k) {
			t.Error("nobody queues, and the table is contended")
		}
		first := q.take(t.Context(), k)
		var order []int
		for i := range 3 {
			go func() {
				end := q.take(t.Context(), k)
				order = append(order, i) // alone while it is its turn
				end()
			}()
			synctest.Wait()
		}
		if !q.contended(k) || q.contended(other) {
			t.Errorf("contended: %v, another warehouse's table of that name: %v", q.contended(k), q.contended(other))
		}
		q.take(t.Context(), other)() // at once
		first()
		synctest.Wait()
		if diff := cmp.Diff([]int{0, 1, 2}, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if q.contended(k) || len(q.of) != 0 {
			t.Errorf("queues are left: %v", q.of)
		}
	})
}

func TestTurnsEndTheirWait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		ctx  func(ctx context.Context) (context.Context, context.CancelFunc)
		want time.Duration
	}{
		{"one before it hangs", context.WithCancel, turnWait},
		{"the request ends", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var q turns
				k := turnKey{1, "t"}
				hanging := q.take(t.Context(), k)
				ctx, cancel := c.ctx(t.Context())
				defer cancel()
				began := time.Now()
				end := q.take(ctx, k)
				if took := time.Since(began); took != c.want {
					t.Errorf("waited %v, want %v", took, c.want)
				}
				end() // takes nothing from the one that hangs
				if len(q.of[k].slot) != 1 {
					t.Error("the turn was ended by somebody else")
				}
				hanging()
				if len(q.of) != 0 {
					t.Errorf("queues are left: %v", q.of)
				}
			})
		})
	}
}
