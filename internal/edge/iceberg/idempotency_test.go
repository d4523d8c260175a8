package iceberg_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/faulty"
)

// keyed is one change that takes an Idempotency-Key.
type keyed struct {
	name, method, path, body string
	status                   int
	commits                  bool
	// A request of the same route that fails the same way every time.
	badPath, badBody string
	badStatus        int
}

func keyedRoutes(b *bench) []keyed {
	ns := b.namespace("n")
	for _, name := range []string{"commit", "drop", "purge", "from", "tx"} {
		b.table(ns, name)
	}
	b.namespace("gone")
	for _, name := range []string{"replaced", "viewdrop", "viewpurge", "viewfrom", "viewregistered"} {
		b.do("POST", ns+"/views", viewBody(name)).want(200)
	}
	b.table(ns, "unregister")
	file := b.do("GET", b.table(ns, "registered"), "").want(200).text("metadata-location")
	b.do("DELETE", ns+"/tables/registered", "").want(204)
	viewFile := b.do("GET", ns+"/views/viewregistered", "").want(200).text("metadata-location")
	b.do("DELETE", ns+"/views/viewregistered", "").want(204)
	overwritten := b.do("GET", b.table(ns, "overwritten"), "").want(200).text("metadata-location")
	b.do("POST", ns+"/tables/overwritten", setProperty("k", "v")).want(200)
	change := func(table, requirement string) string {
		return fmt.Sprintf(`{"table-changes":[{"identifier":{"namespace":["n"],"name":%q},"requirements":[%s],"updates":[{"action":"set-properties","updates":{"k":"v"}}]}]}`, table, requirement)
	}
	rename := func(from, to string) string {
		return fmt.Sprintf(`{"source":{"namespace":["n"],"name":%q},"destination":{"namespace":["n"],"name":%q}}`, from, to)
	}
	const wrongUUID = `{"type":"assert-table-uuid","uuid":"11111111-2222-3333-4444-555555555555"}`
	return []keyed{
		{"create namespace", "POST", base + "namespaces", `{"namespace":["made"],"properties":{"a":"b"}}`, 200, false, base + "namespaces", `{"namespace":["n"]}`, 409},
		{"drop namespace", "DELETE", base + "namespaces/gone", "", 204, false, base + "namespaces/n", "", 409},
		{"update properties", "POST", ns + "/properties", `{"removals":["x"],"updates":{"a":"b"}}`, 200, false, ns + "/properties", `{"removals":["a"],"updates":{"a":"b"}}`, 422},
		{"create table", "POST", ns + "/tables", createBody("made"), 200, false, ns + "/tables", createBody("commit"), 409},
		{"stage table", "POST", ns + "/tables", createBody("staged", `"stage-create":true`), 200, false, ns + "/tables", `{"name":"x"}`, 400},
		{"register table", "POST", ns + "/register", `{"name":"registered","metadata-location":"` + file + `"}`, 200, false, ns + "/register", `{"name":"x","metadata-location":"s3://other/x"}`, 400},
		{"register over a table", "POST", ns + "/register", `{"name":"overwritten","overwrite":true,"metadata-location":"` + overwritten + `"}`, 200, false, ns + "/register", `{"name":"overwritten","overwrite":true,"metadata-location":"s3://other/x"}`, 400},
		{"commit table", "POST", ns + "/tables/commit", setProperty("k", "v"), 200, true, ns + "/tables/commit", `{"requirements":[` + wrongUUID + `],"updates":[]}`, 409},
		{"commit of nothing", "POST", ns + "/tables/commit", `{"requirements":[],"updates":[]}`, 200, true, ns + "/tables/none", setProperty("k", "v"), 404},
		{"drop table", "DELETE", ns + "/tables/drop", "", 204, false, ns + "/tables/none", "", 404},
		{"purge table", "DELETE", ns + "/tables/purge?purgeRequested=true", "", 204, false, ns + "/tables/none?purgeRequested=true", "", 404},
		{"unregister table", "POST", ns + "/tables/unregister/unregister", "", 200, false, ns + "/tables/none/unregister", "", 404},
		{"create view", "POST", ns + "/views", viewBody("viewmade"), 200, false, ns + "/views", viewBody("commit"), 409},
		{"replace view", "POST", ns + "/views/replaced", replaceBody("SELECT 2"), 200, true, ns + "/views/none", replaceBody("SELECT 2"), 404},
		{"register view", "POST", ns + "/register-view", `{"name":"viewregistered","metadata-location":"` + viewFile + `"}`, 200, false, ns + "/register-view", `{"name":"x","metadata-location":"s3://other/x"}`, 400},
		{"purge view", "DELETE", ns + "/views/viewpurge?purgeRequested=true", "", 204, false, ns + "/views/none?purgeRequested=true", "", 404},
		{"drop view", "DELETE", ns + "/views/viewdrop", "", 204, false, ns + "/views/none", "", 404},
		{"rename view", "POST", base + "views/rename", rename("viewfrom", "viewto"), 204, false, base + "views/rename", rename("none", "viewto"), 404},
		{"rename table", "POST", base + "tables/rename", rename("from", "to"), 204, false, base + "tables/rename", rename("none", "to"), 404},
		{"transaction", "POST", base + "transactions/commit", change("tx", ""), 204, true, base + "transactions/commit", change("tx", wrongUUID), 409},
	}
}

// Whatever route config names that is a change stands in the table above. Reports of
// metrics change nothing.
func TestKeyedRoutesAreAll(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	routes := keyedRoutes(b)
	for _, e := range b.do("GET", "/v1/config", "").want(200).get("endpoints").([]any) {
		method, pattern, _ := strings.Cut(e.(string), " ")
		if method == "GET" || method == "HEAD" || strings.HasSuffix(pattern, "/metrics") {
			continue
		}
		pattern = strings.Replace(pattern, "/v1/{prefix}/", base, 1)
		if !slices.ContainsFunc(routes, func(c keyed) bool { return c.method == method && follows(c.path, pattern) }) {
			t.Errorf("no test sends a key with %s", e)
		}
	}
}

// follows reports whether a path is one of the pattern.
func follows(path, pattern string) bool {
	path, _, _ = strings.Cut(path, "?")
	segments, want := strings.Split(path, "/"), strings.Split(pattern, "/")
	return slices.EqualFunc(segments, want, func(s, w string) bool { return s == w || strings.HasPrefix(w, "{") })
}

func TestEveryChangeTakesAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		for _, c := range keyedRoutes(b) {
			t.Run(c.name, func(t *testing.T) {
				b := b.on(t)
				key := newKey()
				first := b.do(c.method, c.path, c.body, "Idempotency-Key", key).want(c.status)
				b.unchanged(func() {
					again := b.do(c.method, c.path, c.body, "Idempotency-Key", key).want(c.status)
					if diff := cmp.Diff(string(first.body), string(again.body)); diff != "" {
						t.Errorf("the answer changed: %s", diff)
					}
					for _, h := range []string{"ETag", "X-Lethe-Job"} {
						if first.header.Get(h) != again.header.Get(h) {
							t.Errorf("%s %q, then %q", h, first.header.Get(h), again.header.Get(h))
						}
					}
					// A key in capitals is the same key; another body or principal is not the same request.
					b.do(c.method, c.path, c.body, "Idempotency-Key", strings.ToUpper(key)).want(c.status)
					b.do(c.method, c.badPath, c.badBody, "Idempotency-Key", key).want(422, "UnprocessableEntityException")
				})

				// A deterministic error is replayed: also when it would be a success by now.
				bad := newKey()
				b.unchanged(func() {
					one := b.do(c.method, c.badPath, c.badBody, "Idempotency-Key", bad).want(c.badStatus)
					two := b.do(c.method, c.badPath, c.badBody, "Idempotency-Key", bad).want(c.badStatus, one.errorType())
					if one.message() != two.message() {
						t.Errorf("%q, then %q", one.message(), two.message())
					}
				})
				for name, header := range map[string]string{"no UUID": "x", "braces": "{" + newKey() + "}", "too short": newKey()[:35], "no dashes": strings.ReplaceAll(newKey(), "-", "")} {
					a := b.do(c.method, c.badPath, c.badBody, "Idempotency-Key", header)
					if a.status != 400 {
						t.Errorf("%s: status %d", name, a.status)
					}
				}
			})
		}
	})
}

// Keys belong to a principal.
func TestIdempotencyKeysAreOnesOwn(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	key := newKey()
	b.do("POST", base+"namespaces", `{"namespace":["a"]}`, "Idempotency-Key", key).want(200)
	b.do("POST", base+"namespaces", `{"namespace":["b"]}`, "Idempotency-Key", key, "Authorization", "Bearer "+bobKey).want(200)
	b.do("GET", base+"namespaces/b", "").want(200)
}

// A remembered conflict stays one even after the reason for it went away.
func TestDeterministicErrorsOutliveTheirReason(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	ns := b.namespace("n")
	path := b.table(ns, "t")
	key := newKey()
	b.do("POST", ns+"/tables", createBody("t"), "Idempotency-Key", key).want(409, "AlreadyExistsException")
	b.do("DELETE", path, "").want(204)
	b.do("POST", ns+"/tables", createBody("t"), "Idempotency-Key", key).want(409, "AlreadyExistsException")
	b.do("POST", ns+"/tables", createBody("t")).want(200)
}

// Passing trouble is never remembered: the client's next try gets through.
func TestPassingTroubleIsNotRemembered(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		for _, c := range keyedRoutes(b) {
			t.Run(c.name, func(t *testing.T) {
				b := b.on(t)
				busy, internal := 503, 500
				if c.commits {
					busy, internal = 429, 429
				}
				key := newKey()
				for _, trouble := range []struct {
					err    error
					status int
				}{{errBusy, busy}, {errors.New("something broke"), internal}} {
					b.unchanged(func() {
						a := b.in(beforeFirst(trouble.err), c.method, c.path, c.body, "Idempotency-Key", key).want(trouble.status)
						if strings.Contains(string(a.body), "broke") || strings.Contains(string(a.body), "bad connection") {
							t.Errorf("the cause leaks: %s", a.body)
						}
					})
				}
				b.do(c.method, c.path, c.body, "Idempotency-Key", key).want(c.status)
			})
		}
	})
}

func beforeFirst(err error) *trouble {
	return &trouble{before: func(nth int) error {
		if nth == 1 {
			return err
		}
		return nil
	}}
}

// Authentication failures are not remembered either, nor is a store that is down.
func TestStoreTroubleIsNotRemembered(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	ns := b.namespace("n")
	path := b.table(ns, "t")
	for _, c := range []struct {
		name, path, body string
		class            blob.Class
		status           int
	}{
		{"create, store down", ns + "/tables", createBody("a"), blob.Unavailable, 503},
		{"create, denied", ns + "/tables", createBody("b"), blob.Denied, 403},
		{"commit, store down", path, setProperty("a", "1"), blob.Unavailable, 429},
		{"commit, denied", path, setProperty("b", "1"), blob.Denied, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := b.on(t)
			key := newKey()
			b.unchanged(func() {
				b.bucket.FailCall(faulty.Put, 1, c.class)
				b.do("POST", c.path, c.body, "Idempotency-Key", key).want(c.status)
			})
			b.do("POST", c.path, c.body, "Idempotency-Key", key, "Authorization", "").want(401)
			b.do("POST", c.path, c.body, "Idempotency-Key", key).want(200)
		})
	}
}

// Twins at the same time: one is carried out, all get its answer (or are told to come
// again, which is no answer).
func TestConcurrentTwins(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		for _, c := range keyedRoutes(b) {
			t.Run(c.name, func(t *testing.T) {
				b := b.on(t)
				const twins = 6
				key := newKey()
				answers := make([]*answer, twins)
				var wg sync.WaitGroup
				for i := range twins {
					wg.Go(func() { answers[i] = b.do(c.method, c.path, c.body, "Idempotency-Key", key) })
				}
				wg.Wait()
				last := b.do(c.method, c.path, c.body, "Idempotency-Key", key).want(c.status)
				for _, a := range answers {
					if a.status == 429 || a.status == 503 {
						continue
					}
					a.want(c.status)
					if diff := cmp.Diff(string(last.body), string(a.body)); diff != "" {
						t.Errorf("twins got different answers: %s", diff)
					}
					if a.header.Get("X-Lethe-Job") != last.header.Get("X-Lethe-Job") {
						t.Errorf("twins got the jobs %q and %q", a.header.Get("X-Lethe-Job"), last.header.Get("X-Lethe-Job"))
					}
				}
			})
		}
		if n := b.count("SELECT COUNT(*) FROM iceberg_cleanup_job"); n != 2 {
			t.Errorf("%d jobs were made by the purge of a table and of a view", n)
		}
	})
}

// A create whose answer was lost after COMMIT is found by its key.
func TestReplayAfterALostAnswer(t *testing.T) {
	t.Parallel()
	b := open(t, options{lockWait: time.Second})
	ns := b.namespace("n")
	key := newKey()
	down := &trouble{after: func(int) error { return errors.New("the connection broke") }, before: func(nth int) error {
		if nth > 1 {
			return errBusy
		}
		return nil
	}}
	b.in(down, "POST", ns+"/tables", createBody("t"), "Idempotency-Key", key).want(500, "CommitStateUnknownException")
	a := b.do("POST", ns+"/tables", createBody("t"), "Idempotency-Key", key).want(200)
	if got := b.do("GET", ns+"/tables/t", "").want(200).text("metadata-location"); got != a.text("metadata-location") {
		t.Errorf("the replay names %s, the table is %s", a.text("metadata-location"), got)
	}
}
