package iceberg_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/faulty"
)

// commitRoute is a route on which 5xx means "unknown" to clients.
type commitRoute struct {
	name, path string
	body       func(value string) string
	status     int
}

func commitRoutes(b *bench) []commitRoute {
	ns := b.namespace("n")
	one, two := b.table(ns, "one"), b.table(ns, "two")
	_ = two
	return []commitRoute{
		{"table", one, func(v string) string { return setProperty("k", v) }, 200},
		{"transaction", base + "transactions/commit", func(v string) string {
			return transaction(change("one", "k", v), change("two", "k", v))
		}, 204},
	}
}

func change(table, key, value string) string {
	return fmt.Sprintf(`{"identifier":{"namespace":["n"],"name":%q},"requirements":[],"updates":[{"action":"set-properties","updates":{%q:%q}}]}`, table, key, value)
}

func transaction(changes ...string) string {
	return `{"table-changes":[` + strings.Join(changes, ",") + `]}`
}

func (b *bench) property(table, key string) string {
	b.tb.Helper()
	return b.do("GET", base+"namespaces/n/tables/"+table, "").want(200).text("metadata", "properties", key)
}

// Trouble before COMMIT was sent is 429 on commit routes: clients read 5xx as unknown
// and would not try again.
func TestCommitTroubleBeforeTheCommit(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		for _, r := range commitRoutes(b) {
			t.Run(r.name, func(t *testing.T) {
				b := b.on(t)
				for _, c := range []struct {
					name  string
					set   func() *trouble
					want  int
					cause string
				}{
					{"the database broke", func() *trouble { return beforeFirst(errors.New("secret cause")) }, 429, "SlowDownException"},
					{"the connection broke", func() *trouble { return beforeFirst(errBusy) }, 429, "SlowDownException"},
					{"the store is down", func() *trouble { b.bucket.FailCall(faulty.Put, 1, blob.Unavailable); return &trouble{} }, 429, "SlowDownException"},
					{"the store is slow", func() *trouble { b.bucket.FailCall(faulty.Put, 1, blob.Throttled); return &trouble{} }, 429, "SlowDownException"},
					{"the store failed", func() *trouble { b.bucket.FailCall(faulty.Put, 1, blob.Other); return &trouble{} }, 429, "SlowDownException"},
					{"the store denied", func() *trouble { b.bucket.FailCall(faulty.Put, 1, blob.Denied); return &trouble{} }, 403, "NotAuthorizedException"},
					{"the put's answer was lost", func() *trouble { b.bucket.LoseAnswer(faulty.Put, 1, blob.Unavailable); return &trouble{} }, 429, "SlowDownException"},
				} {
					t.Run(c.name, func(t *testing.T) {
						b := b.on(t)
						b.unchanged(func() {
							a := b.in(c.set(), "POST", r.path, r.body("lost"))
							a.want(c.want, c.cause)
							if strings.Contains(string(a.body), "secret cause") {
								t.Errorf("the cause leaks: %s", a.body)
							}
						})
						for _, table := range []string{"one", "two"} {
							if got := b.property(table, "k"); got == "lost" {
								t.Errorf("the commit of %s was applied all the same", table)
							}
						}
					})
				}
				b.do("POST", r.path, r.body("kept")).want(r.status)
			})
		}
	})
}

// Where no commit is promised, the same trouble is 503 with Retry-After, or 500.
func TestTroubleElsewhere(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	ns := b.namespace("n")
	path := b.table(ns, "t")
	for _, c := range []struct {
		name, method, path, body string
		store                    bool
	}{
		{"create", "POST", ns + "/tables", createBody("x"), true},
		{"create namespace", "POST", base + "namespaces", `{"namespace":["x"]}`, false},
		{"properties", "POST", ns + "/properties", `{"updates":{"a":"b"}}`, false},
		{"rename", "POST", base + "tables/rename", `{"source":{"namespace":["n"],"name":"t"},"destination":{"namespace":["n"],"name":"u"}}`, false},
		{"drop", "DELETE", path, "", false},
		{"purge", "DELETE", path + "?purgeRequested=true", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := b.on(t)
			b.unchanged(func() {
				a := b.in(beforeFirst(errBusy), c.method, c.path, c.body).want(503, "SlowDownException")
				if a.header.Get("X-Lethe-Job") != "" {
					t.Error("a job of a drop that was not applied")
				}
				b.in(beforeFirst(errors.New("secret cause")), c.method, c.path, c.body).want(500, "InternalServerError")
				if c.store {
					b.bucket.FailCall(faulty.Put, 1, blob.Unavailable)
					b.do(c.method, c.path, c.body).want(503, "SlowDownException")
				}
			})
			b.do("HEAD", path, "").want(204)
		})
	}
}

// A lost answer is read back: applied is a success, and nothing is unknown.
func TestCommitAnswerLostAndFoundAgain(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		for _, r := range commitRoutes(b) {
			t.Run(r.name, func(t *testing.T) {
				b := b.on(t)
				lost := &trouble{after: func(nth int) error {
					if nth == 1 {
						return errors.New("the connection broke")
					}
					return nil
				}}
				b.in(lost, "POST", r.path, r.body("found "+r.name)).want(r.status)
				if got := b.property("one", "k"); got != "found "+r.name {
					t.Errorf("property %q", got)
				}
			})
		}
	})
}

// Only when nobody can tell is it 500 CommitStateUnknownException; then the file stays,
// for the table may name it.
func TestCommitStateUnknown(t *testing.T) {
	t.Parallel()
	each(t, options{lockWait: time.Second}, func(t *testing.T, b *bench) {
		for _, r := range commitRoutes(b) {
			t.Run(r.name, func(t *testing.T) {
				b := b.on(t)
				before := b.keys()
				down := &trouble{
					after: func(int) error { return errors.New("the connection broke") },
					before: func(nth int) error {
						if nth > 1 {
							return errBusy
						}
						return nil
					},
				}
				b.in(down, "POST", r.path, r.body("maybe "+r.name)).want(500, "CommitStateUnknownException")
				after := b.keys()
				if len(after) <= len(before) {
					t.Error("the new files are gone, though a table may name them")
				}
				if got := b.property("one", "k"); got != "maybe "+r.name {
					t.Errorf("property %q: this one was applied", got)
				}
			})
		}
	})
}

// The request ends between the last statement and COMMIT: the driver cannot tell, the
// look can. Nothing was applied, so nothing may be claimed, whichever member is asked.
func TestCommitCancelledAtTheLastMoment(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		commitRoutes(b)
		onlyRequires := `{"identifier":{"namespace":["n"],"name":"two"},"requirements":[{"type":"assert-last-assigned-field-id","last-assigned-field-id":2}],"updates":[]}`
		for _, c := range []struct{ name, path, body string }{
			{"table", base + "namespaces/n/tables/one", setProperty("k", "lost")},
			{"transaction", base + "transactions/commit", transaction(change("one", "k", "lost"), change("two", "k", "lost"))},
			{"a member that only requires, first", base + "transactions/commit", transaction(onlyRequires, change("one", "k", "lost"))},
			{"a member that only requires, last", base + "transactions/commit", transaction(change("one", "k", "lost"), onlyRequires)},
		} {
			t.Run(c.name, func(t *testing.T) {
				b := b.on(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				end := &trouble{before: func(nth int) error {
					if nth == 1 {
						cancel()
					}
					return nil
				}}
				b.unchanged(func() {
					r := b.request("POST", c.path, c.body)
					a := b.send(r.WithContext(context.WithValue(ctx, troubleKey{}, end)))
					a.want(429, "SlowDownException")
				})
				if got := b.property("one", "k"); got == "lost" {
					t.Errorf("property %q", got)
				}
			})
		}
	})
}

func TestTransactions(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		ns := b.namespace("n")
		for _, name := range []string{"one", "two", "three"} {
			b.table(ns, name)
		}
		const path = base + "transactions/commit"
		staged := b.do("POST", ns+"/tables", createBody("new", `"stage-create":true`)).want(200)
		creates := fmt.Sprintf(`{"identifier":{"namespace":["n"],"name":"new"},"requirements":[{"type":"assert-create"}],"updates":[{"action":"assign-uuid","uuid":%q},
			{"action":"upgrade-format-version","format-version":2},{"action":"add-schema","schema":%s},{"action":"set-current-schema","schema-id":-1},
			{"action":"add-spec","spec":{"spec-id":0,"fields":[]}},{"action":"set-default-spec","spec-id":-1},
			{"action":"add-sort-order","sort-order":{"order-id":0,"fields":[]}},{"action":"set-default-sort-order","sort-order-id":-1},
			{"action":"set-location","location":%q}]}`, staged.text("metadata", "table-uuid"), schema, staged.text("metadata", "location"))
		fails := `{"identifier":{"namespace":["n"],"name":"two"},"requirements":[{"type":"assert-table-uuid","uuid":"11111111-2222-3333-4444-555555555555"}],"updates":[]}`
		for _, c := range []struct {
			name, body string
			status     int
			kind       string
		}{
			{"nothing", `{"table-changes":[]}`, 400, "BadRequestException"},
			{"no list", `{}`, 400, "BadRequestException"},
			{"a list of text", `{"table-changes":["x"]}`, 400, "BadRequestException"},
			{"no identifier", `{"table-changes":[{"requirements":[],"updates":[]}]}`, 400, "BadRequestException"},
			{"one table twice", transaction(change("one", "k", "1"), change("two", "k", "1"), change("one", "j", "1")), 400, "BadRequestException"},
			{"a missing table", transaction(change("one", "k", "1"), change("none", "k", "1")), 404, "NoSuchTableException"},
			{"a failing requirement", transaction(change("one", "k", "1"), fails), 409, "CommitFailedException"},
			{"a bad update", transaction(change("one", "k", "1"), strings.Replace(change("two", "k", "1"), "set-properties", "dance", 1)), 400, "BadRequestException"},
			{"a create of what exists", transaction(change("one", "k", "1"), strings.Replace(creates, `"new"`, `"three"`, 1)), 409, "CommitFailedException"},
			{"a create beside a failing one", transaction(creates, fails), 409, "CommitFailedException"},
		} {
			t.Run(c.name, func(t *testing.T) {
				b := b.on(t)
				b.unchanged(func() {
					a := b.do("POST", path, c.body)
					a.want(c.status, c.kind)
				})
				if got := b.property("one", "k"); got != "" {
					t.Errorf("property %q of a transaction that failed", got)
				}
				b.do("GET", ns+"/tables/new", "").want(404)
			})
		}
		t.Run("a file cannot be written", func(t *testing.T) {
			b := b.on(t)
			b.unchanged(func() {
				b.bucket.FailCall(faulty.Put, 3, blob.Unavailable)
				b.do("POST", path, transaction(change("one", "k", "1"), change("two", "k", "1"), change("three", "k", "1"))).want(429)
			})
		})
		before := b.keys()
		b.do("POST", path, transaction(change("three", "k", "1"), creates, change("one", "k", "1"))).want(204)
		if n := len(b.keys()) - len(before); n != 3 {
			t.Errorf("%d new files, want 3", n)
		}
		for _, table := range []string{"one", "three"} {
			if got := b.property(table, "k"); got != "1" {
				t.Errorf("property %q of %s", got, table)
			}
		}
		if got := b.do("GET", ns+"/tables/new", "").want(200).text("metadata", "table-uuid"); got != staged.text("metadata", "table-uuid") {
			t.Errorf("uuid %s", got)
		}
		b.unchanged(func() {
			b.do("POST", path, transaction(`{"identifier":{"namespace":["n"],"name":"one"},"requirements":[],"updates":[]}`)).want(204)
		})
	})
}

// Each state of a table has a file of its own, and a load names one that is there.
func TestCommitsLeaveAHistory(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	path := b.table(b.namespace("n"), "t")
	seen := []string{b.do("GET", path, "").text("metadata-location")}
	for i := range 5 {
		at := b.do("POST", path, setProperty("k", fmt.Sprint(i))).want(200).text("metadata-location")
		if slices.Contains(seen, at) {
			t.Fatalf("%s was written twice", at)
		}
		seen = append(seen, at)
	}
	for _, at := range seen {
		if !slices.Contains(b.keys(), strings.TrimPrefix(at, rootURI+"/")) {
			t.Errorf("%s is gone", at)
		}
	}
	if log, _ := b.do("GET", path, "").get("metadata", "metadata-log").([]any); len(log) != 5 {
		t.Errorf("a log of %d files", len(log))
	}
}
