package iceberg_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/faulty"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
)

const asyncHeader = "X-Gravitino-Async-Purge"

func TestDropHeaders(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		ns := b.namespace("n")
		for _, c := range []struct {
			name, query, header string
			status              int
			files               bool // they stay
			job                 bool
		}{
			{"without purge", "", "", 204, true, false},
			{"purge refused in words", "?purgeRequested=false", "", 204, true, false},
			{"an empty word", "?purgeRequested=", "", 204, true, false},
			{"the header alone", "", "true", 204, true, false},
			{"a bad header alone", "", "perhaps", 204, true, false},
			{"purge", "?purgeRequested=true", "", 204, false, true},
			{"purge in capitals", "?purgeRequested=TRUE", "", 204, false, true},
			{"purge, synchronous in words", "?purgeRequested=true", "false", 204, false, true},
			{"a bad header", "?purgeRequested=true", "perhaps", 400, true, false},
			{"a number", "?purgeRequested=true", "1", 400, true, false},
			{"two words", "?purgeRequested=true", "true,false", 400, true, false},
			{"a bad word", "?purgeRequested=1", "", 400, true, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				b := b.on(t)
				path := b.table(ns, "t")
				before := len(b.keys())
				a := b.do("DELETE", path+c.query, "", asyncHeader, c.header).want(c.status)
				if stay := len(b.keys()) == before; stay != c.files {
					t.Errorf("files stay: %v, want %v", stay, c.files)
				}
				if made := a.header.Get("X-Lethe-Job") != ""; made != c.job {
					t.Errorf("X-Lethe-Job %q", a.header.Get("X-Lethe-Job"))
				}
				if c.job {
					if got := a.header.Get("X-Lethe-Job-State"); got != string(job.Succeeded) {
						t.Errorf("X-Lethe-Job-State %q", got)
					}
				}
				if c.status != 204 {
					b.do("HEAD", path, "").want(204)
					b.do("DELETE", path, "").want(204)
				}
				b.do("GET", path, "").want(404, "NoSuchTableException")
				jobs := b.count("SELECT COUNT(*) FROM iceberg_cleanup_job")
				b.do("DELETE", path+"?purgeRequested=true", "").want(404, "NoSuchTableException")
				if n := b.count("SELECT COUNT(*) FROM iceberg_cleanup_job"); n != jobs {
					t.Error("a second drop made a second job")
				}
			})
		}
	})
}

// An asynchronous purge answers while its files are all there; its name is taken until
// the job has ended.
func TestAsyncPurge(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		ns := b.namespace("n")
		path := b.table(ns, "t", `"location":"`+rootURI+`/explicit"`)
		b.table(ns, "u")
		gate := b.bucket.Hold(faulty.Delete)
		key := newKey()
		a := b.do("DELETE", path+"?purgeRequested=true", "", asyncHeader, "True", "Idempotency-Key", key).want(204)
		if got := a.header.Get("X-Lethe-Job-State"); got != string(job.Pending) {
			t.Errorf("X-Lethe-Job-State %q", got)
		}
		name := a.header.Get("X-Lethe-Job")
		replayed := b.do("DELETE", path+"?purgeRequested=true", "", asyncHeader, "True", "Idempotency-Key", key).want(204)
		if got := replayed.header.Get("X-Lethe-Job"); got != name {
			t.Errorf("the replay names %q, not %q", got, name)
		}
		b.do("GET", path, "").want(404, "NoSuchTableException")
		b.do("POST", path, setProperty("a", "b")).want(404, "NoSuchTableException")
		for what, refused := range map[string]*answer{
			"create":                b.do("POST", ns+"/tables", createBody("t")),
			"rename":                b.do("POST", base+"tables/rename", `{"source":{"namespace":["n"],"name":"u"},"destination":{"namespace":["n"],"name":"t"}}`),
			"create over the place": b.do("POST", ns+"/tables", createBody("x", `"location":"`+rootURI+`/explicit/in"`)),
		} {
			if refused.want(409, "AlreadyExistsException"); !strings.Contains(refused.message(), name) {
				t.Errorf("%s: %q does not name %s", what, refused.message(), name)
			}
		}
		gate.Open()
		row, err := b.runner.Wait(t.Context(), b.row(a).ID, 2*time.Minute)
		b.must(err)
		if row.State != job.Succeeded {
			t.Errorf("state %s: %s", row.State, row.LastError)
		}
		b.do("POST", ns+"/tables", createBody("t")).want(200)
	})
}

// The answer is 204 once the drop is committed, whatever becomes of the job.
func TestPurgeAnswersAreAlways204(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		o     options
		set   func(b *bench) (undo func())
		state job.State
	}{
		{"the wait is over", options{purgeWait: 20 * time.Millisecond}, func(b *bench) func() { return b.bucket.Hold(faulty.Delete).Open }, job.Running},
		{"the metadata is damaged", options{}, func(b *bench) func() {
			for _, k := range b.store.Keys() {
				b.store.DeleteMany(b.tb.Context(), []blob.Key{k})
				b.put(string(k), "{")
			}
			return func() {}
		}, job.Failed},
		{"every delete is denied", options{}, func(b *bench) func() {
			b.bucket.DenyKeys(func(k blob.Key) bool { return strings.HasSuffix(string(k), ".json") })
			return func() { b.bucket.DenyKeys(nil) }
		}, job.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := open(t, c.o)
			path := b.table(b.namespace("n"), "t")
			b.do("GET", path, "").want(200)
			undo := c.set(b)
			defer undo()
			key := newKey()
			a := b.do("DELETE", path+"?purgeRequested=true", "", "Idempotency-Key", key).want(204)
			// A short wait may end before the first look at the running job.
			got := job.State(a.header.Get("X-Lethe-Job-State"))
			if got != c.state && (c.state != job.Running || got != job.Pending) {
				t.Errorf("X-Lethe-Job-State %q, want %s", got, c.state)
			}
			again := b.do("DELETE", path+"?purgeRequested=true", "", "Idempotency-Key", key).want(204)
			if again.header.Get("X-Lethe-Job") != a.header.Get("X-Lethe-Job") {
				t.Errorf("the replay says %v", again.header)
			}
			if row := jobtest.AwaitState(t, b.jobs.Jobs(), b.row(a).ID, c.state); row.CreatedBy != "ann" {
				t.Errorf("the row is by %q", row.CreatedBy)
			}
		})
	}
}

// A client that hangs up takes nothing with it.
func TestPurgeSurvivesItsClient(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	path := b.table(b.namespace("n"), "t")
	gate := b.bucket.Hold(faulty.Delete)
	srv := newServer(t, b.bare)
	ctx, hangUp := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		r := b.request(http.MethodDelete, srv.URL+path+"?purgeRequested=true", "")
		r.RequestURI = ""
		res, err := srv.Client().Do(r.WithContext(ctx))
		if err == nil {
			_ = res.Body.Close()
		}
		done <- err
	}()
	<-gate.Entered()
	hangUp()
	if err := <-done; err == nil {
		t.Error("the request ended before the client hung up")
	}
	gate.Open()
	row, err := b.runner.Wait(t.Context(), 1, 2*time.Minute)
	b.must(err)
	if row.State != job.Succeeded || b.store.Len() != 0 {
		t.Errorf("state %s, files %q", row.State, b.keys())
	}
}

func TestDropWithLostAnswers(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		ns := b.namespace("n")
		once := func(nth int) error {
			if nth == 1 {
				return http.ErrHandlerTimeout
			}
			return nil
		}
		for _, query := range []string{"", "?purgeRequested=true"} {
			path := b.table(ns, "t")
			a := b.in(&trouble{after: once}, "DELETE", path+query, "").want(204)
			if (query != "") != (a.header.Get("X-Lethe-Job") != "") {
				t.Errorf("%q: X-Lethe-Job %q", query, a.header.Get("X-Lethe-Job"))
			}
			b.do("GET", path, "").want(404)
		}
		// Cancelled before it was sent: surely not applied.
		path := b.table(ns, "t")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := b.request("DELETE", path+"?purgeRequested=true", "")
		a := b.send(r.WithContext(context.WithValue(ctx, troubleKey{}, &trouble{before: func(int) error { cancel(); return nil }})))
		if a.status < 500 || a.errorType() == "CommitStateUnknownException" || a.header.Get("X-Lethe-Job") != "" {
			t.Errorf("status %d %s, job %q", a.status, a.errorType(), a.header.Get("X-Lethe-Job"))
		}
		b.do("GET", path, "").want(200)
	})
}

// The replay of a synchronous drop waits as the first request did, however its header
// was spelled.
func TestReplayedDropWaits(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	ns := b.namespace("n")
	for _, header := range []string{"", "false", "False"} {
		path := b.table(ns, "t")
		key := newKey()
		gate := b.bucket.Hold(faulty.Delete)
		ctx, hangUp := context.WithCancel(t.Context())
		first := make(chan *answer, 1)
		go func() {
			r := b.request("DELETE", path+"?purgeRequested=true", "", asyncHeader, header, "Idempotency-Key", key)
			first <- b.send(r.WithContext(ctx))
		}()
		<-gate.Entered()
		hangUp()
		if a := (<-first).want(204); a.header.Get("X-Lethe-Job-State") == string(job.Succeeded) {
			t.Errorf("%q: the first request saw the end", header)
		}
		gate.Open()
		a := b.do("DELETE", path+"?purgeRequested=true", "", asyncHeader, header, "Idempotency-Key", key).want(204)
		if got := a.header.Get("X-Lethe-Job-State"); got != string(job.Succeeded) {
			t.Errorf("%q: the replay says %q", header, got)
		}
	}
}
