package s3_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/pace"
)

// A paced delete holds no turn while the store has the request and its answer is on the
// way, computes with one, and gives it back.
func TestPacedDeletes(t *testing.T) {
	t.Parallel()
	free := func(t *testing.T, g *pace.Governor, where string) {
		t.Helper()
		got := make(chan struct{})
		go func() {
			defer close(got)
			s := g.Section()
			s.Step()
			s.Pause()
		}()
		select {
		case <-got:
		case <-time.After(2 * time.Minute):
			t.Errorf("the delete holds its turn %s", where)
		}
	}
	for name, tt := range map[string]struct {
		keys   int
		status int
		begin  string // of the answer
		want   blob.Outcome
	}{
		"bulk":            {700, 200, "<DeleteResult>", blob.Deleted}, // its answer comes in several parts
		"read by the SDK": {700, 200, "<DeleteResult><!-- odd -->", blob.Deleted},
		"one":             {1, 204, "", blob.Deleted},
		"refused in all":  {700, 503, "", blob.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			g := pace.New(pace.Config{Slots: 1})
			b := open(t, stub(t, after(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodDelete {
					free(t, g, "while the store works")
					w.WriteHeader(tt.status)
					return
				}
				names := wanted(t, r)
				free(t, g, "while the store works")
				if tt.status != 200 {
					refuse(w, tt.status, "SlowDown")
					return
				}
				w.WriteHeader(200)
				for i, name := range names {
					_, _ = fmt.Fprintf(w, "%s<Deleted><Key>%s</Key></Deleted>", map[bool]string{true: tt.begin}[i == 0], name)
					if i == len(names)/2 {
						_ = http.NewResponseController(w).Flush()
						free(t, g, "while it waits for the rest of the answer")
					}
				}
				_, _ = fmt.Fprint(w, "</DeleteResult>")
			})))
			var keys []blob.Key
			for i := range tt.keys {
				keys = append(keys, blob.Key(fmt.Sprintf("%s/%d", strings.Repeat("long/", 20), i)))
			}
			results := b.DeleteMany(pace.With(t.Context(), g.Section()), keys)
			free(t, g, "at its end")
			for _, r := range results {
				if r.Outcome != tt.want {
					t.Fatalf("%+v, want %v", r, tt.want)
				}
			}
		})
	}
}
