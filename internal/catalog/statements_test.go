package catalog_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/internal/tenant"
)

// Every statement of the room is valid SQL on every engine.
func TestStatementsPrepare(t *testing.T) {
	t.Parallel()
	owners := []sqldb.Migrations{tenant.Migrations, purge.Migrations, catalog.Migrations}
	sqldbtest.PrepareAll(t, ".", owners, nil)
}

// The hot paths send no statement more than they need, on every engine: with a database
// in another machine each one is a round trip. BEGIN and COMMIT are not counted.
func TestStatementCounts(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		n := b.namespace("n")
		a, other := ident(n, "a"), ident(n, "b")
		for i, step := range []struct {
			name string
			want int64
			do   func() error
		}{
			// Three looks before the file is written; the request's row, the namespace,
			// the entry, the tombstone, the location.
			{"create", 7, func() error { b.create(a); return nil }},
			{"another create", 7, func() error { b.create(other); return nil }},
			{"load", 1, func() error { return b.load(a) }},
			{"HEAD", 1, func() error { return b.cat.Exists(b.t.Context(), b.call(), catalog.KindTable, a) }},
			{"load of nothing", 1, func() error {
				_, err := b.cat.LoadTable(b.t.Context(), b.call(), ident(n, "none"))
				return refused(err)
			}},
			{"list", 2, func() error { _, _, err := b.cat.ListTables(b.t.Context(), b.call(), n, catalog.Page{}); return err }},
			// The pointer; the request's row, the swap.
			{"commit", 3, func() error { return b.apply(b.call(), a, b.set("k", "1")) }},
			{"append", 3, func() error { return b.apply(b.call(), a, b.firstAppend()) }},
			{"load after a commit", 1, func() error { return b.load(a) }},
			{"commit without updates", 1, func() error { return b.apply(b.call(), a, b.commit("", "")) }},
			{"commit refused", 1, func() error {
				return refused(b.apply(b.call(), a, b.commit(`{"type":"assert-table-uuid","uuid":"`+uuid.NewString()+`"}`, "")))
			}},
			// And the key, twice: its insert and its result.
			{"commit with a key", 5, func() error { return b.apply(b.keyed(), a, b.set("k", "2")) }},
			{"transaction", 5, func() error {
				return b.cat.CommitTransaction(b.t.Context(), b.call(), []catalog.TableCommit{{Identifier: a, Commit: b.set("k", "3")}, {Identifier: other, Commit: b.set("k", "3")}})
			}},
			{"drop", 4, func() error { _, err := b.drop(a, false); return err }},
			{"drop with purge", 9, func() error { _, err := b.drop(other, true); return err }},
		} {
			before := b.db.Statements()
			if err := step.do(); err != nil {
				b.t.Fatalf("%d, %s: %v", i, step.name, err)
			}
			if got := b.db.Statements() - before; got != step.want {
				b.t.Errorf("%s: %d statements, want %d", step.name, got, step.want)
			}
		}
	})
}

// firstAppend is what an engine commits when it writes to an empty table.
func (b *bench) firstAppend() *metadata.Commit {
	b.t.Helper()
	return b.commit(`{"type":"assert-ref-snapshot-id","ref":"main","snapshot-id":null}`, fmt.Sprintf(`{"action":"add-snapshot","snapshot":{
		"snapshot-id":1,"sequence-number":1,"timestamp-ms":%d,"schema-id":0,"manifest-list":"s3://lake/wh/n/snap-1.avro","summary":{"operation":"append"}}},
		{"action":"set-snapshot-ref","ref-name":"main","type":"branch","snapshot-id":1}`, time.Now().UnixMilli()))
}

func (b *bench) load(id catalog.Identifier) error {
	_, err := b.cat.LoadTable(b.t.Context(), b.call(), id)
	return err
}

func (b *bench) apply(call catalog.Call, id catalog.Identifier, commit *metadata.Commit) error {
	_, err := b.cat.CommitTable(b.t.Context(), call, id, commit)
	return err
}

func (b *bench) keyed() catalog.Call {
	call := b.call()
	call.Idempotency = &catalog.Idempotency{Key: uuid.NewString(), Hash: "of this commit"}
	return call
}

// refused turns an error that must come into none.
func refused(err error) error {
	if err == nil {
		return errors.New("it was not refused")
	}
	return nil
}
