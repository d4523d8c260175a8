package catalog_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/purge"
)

func (b *bench) viewRequest(name, extra string) *metadata.CreateViewRequest {
	b.t.Helper()
	body := fmt.Sprintf(`{"name":%q,"schema":%s,"properties":{}%s,"view-version":%s}`, name, schema, extra, version(1, "SELECT 1"))
	req, err := metadata.DecodeCreateView([]byte(body), metadata.Limits{})
	b.must(err)
	return req
}

func version(id int, sql string) string {
	return fmt.Sprintf(`{"version-id":%d,"schema-id":0,"timestamp-ms":%d,"summary":{},"default-namespace":["n"],
		"representations":[{"type":"sql","sql":%q,"dialect":"spark"}]}`, id, 1_700_000_000_000+id, sql)
}

func (b *bench) createView(id catalog.Identifier, extra string) *catalog.LoadedView {
	b.t.Helper()
	v, err := b.cat.CreateView(b.t.Context(), b.call(), id.Namespace, b.viewRequest(id.Name, extra))
	b.must(err)
	return v
}

func (b *bench) replaceView(id catalog.Identifier, sql string) {
	b.t.Helper()
	body := fmt.Sprintf(`{"requirements":[],"updates":[{"action":"add-view-version","view-version":%s},{"action":"set-current-view-version","view-version-id":-1}]}`, version(9, sql))
	commit, err := metadata.DecodeViewCommit([]byte(body), metadata.Limits{})
	b.must(err)
	_, err = b.cat.ReplaceView(b.t.Context(), b.call(), id, commit)
	b.must(err)
}

func TestViewLife(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		n := b.namespace("n")
		id := ident(n, "v")
		b.createView(id, "")
		b.create(ident(n, "t"))
		// Tables and views share one name space.
		_, err := b.cat.CreateView(ctx, b.call(), n, b.viewRequest("t", ""))
		b.wantCode(err, fault.Conflict, catalog.CodeAlreadyExists)
		_, err = b.cat.CreateTable(ctx, b.call(), n, b.request("v"))
		b.wantCode(err, fault.Conflict, catalog.CodeAlreadyExists)
		b.wantCode(b.cat.Rename(ctx, b.call(), catalog.KindView, id, ident(n, "t")), fault.Conflict, catalog.CodeAlreadyExists)
		b.wantCode(b.cat.Rename(ctx, b.call(), catalog.KindTable, id, ident(n, "u")), fault.NotFound, catalog.CodeNoSuchTable)
		_, err = b.cat.LoadTable(ctx, b.call(), id)
		b.wantCode(err, fault.NotFound, catalog.CodeNoSuchTable)
		_, err = b.cat.LoadView(ctx, b.call(), ident(n, "t"))
		b.wantCode(err, fault.NotFound, catalog.CodeNoSuchView)
		_, err = b.cat.Drop(ctx, b.call(), catalog.KindTable, id, catalog.DropOptions{})
		b.wantCode(err, fault.NotFound, catalog.CodeNoSuchTable)

		b.replaceView(id, "SELECT 2")
		b.replaceView(id, "SELECT 3")
		views, _, err := b.cat.ListViews(ctx, b.call(), n, catalog.Page{})
		b.must(err)
		tables, _, err := b.cat.ListTables(ctx, b.call(), n, catalog.Page{})
		b.must(err)
		if diff := cmp.Diff([][]string{{"v"}, {"t"}}, [][]string{views, tables}); diff != "" {
			b.t.Errorf("lists (-want +got):\n%s", diff)
		}
		b.must(b.cat.Rename(ctx, b.call(), catalog.KindView, id, ident(n, "w")))
		loaded, err := b.cat.LoadView(ctx, b.call(), ident(n, "w"))
		b.must(err)
		j, err := b.cat.Drop(ctx, b.call(), catalog.KindView, ident(n, "w"), catalog.DropOptions{Purge: true})
		b.must(err)
		got, err := b.jobs.Find(ctx, j)
		b.must(err)
		if got.Type != purge.View || len(got.Files) != 3 || got.MetadataLocation != loaded.MetadataLocation || len(got.Locations) != 1 {
			b.t.Errorf("job %+v, want a view with 3 files", got)
		}
		_, err = b.cat.CreateView(ctx, b.call(), n, b.viewRequest("w", ""))
		b.wantCode(err, fault.Conflict, catalog.CodePurging)
		_, err = b.cat.CreateTable(ctx, b.call(), n, b.request("w"))
		b.wantCode(err, fault.Conflict, catalog.CodePurging)
		b.settle(j, nil)
		again := b.createView(ident(n, "w"), "")
		_, err = b.drop(ident(n, "w"), false)
		b.wantCode(err, fault.NotFound, catalog.CodeNoSuchTable)
		_, err = b.cat.Drop(ctx, b.call(), catalog.KindView, ident(n, "w"), catalog.DropOptions{})
		b.must(err)
		_, err = b.cat.RegisterView(ctx, b.call(), ident(n, "x"), again.MetadataLocation)
		b.must(err)
		if rows := b.count("SELECT COUNT(*) FROM view_files"); rows != 1 {
			b.t.Errorf("%d rows of view_files, want the registered view's", rows)
		}
		b.invariants()
	})
}

func TestRegisterWithOverwriteAndUnregister(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		n := b.namespace("n")
		one := b.create(ident(n, "one"))
		two := b.create(ident(n, "two"))
		b.createView(ident(n, "v"), "")
		_, err := b.cat.RegisterTable(ctx, b.call(), ident(n, "v"), one.MetadataLocation, true)
		b.wantCode(err, fault.Conflict, catalog.CodeAlreadyExists)
		out, err := b.cat.UnregisterTable(ctx, b.call(), ident(n, "one"))
		b.must(err)
		if out.MetadataLocation != one.MetadataLocation {
			b.t.Errorf("unregistered %s, want %s", out.MetadataLocation, one.MetadataLocation)
		}
		_, err = b.cat.CommitTable(ctx, b.call(), ident(n, "one"), b.set("k", "v"))
		b.wantCode(err, fault.NotFound, catalog.CodeNoSuchTable)
		_, err = b.cat.RegisterTable(ctx, b.call(), ident(n, "two"), one.MetadataLocation, true)
		b.must(err)
		now, err := metadataOf(b, ident(n, "two"))
		b.must(err)
		if now.UUID() != one.Table.UUID() {
			b.t.Errorf("uuid %s, want %s", now.UUID(), one.Table.UUID())
		}
		// What was overwritten is as after a drop without purge: it can be registered again.
		_, err = b.cat.RegisterTable(ctx, b.call(), ident(n, "old"), two.MetadataLocation, true)
		b.must(err)
		// The same metadata over itself stays what it is.
		_, err = b.cat.RegisterTable(ctx, b.call(), ident(n, "old"), two.MetadataLocation, true)
		b.must(err)
		_, err = b.drop(ident(n, "old"), true)
		b.must(err)
		b.invariants()
	})
}

func TestTransaction(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		n := b.namespace("n")
		x, y, z := ident(n, "x"), ident(n, "y"), ident(n, "z")
		b.create(x)
		b.create(y)
		staged := b.create(z, `"stage-create":true`)
		files := len(b.keys())
		bad := b.commit(`{"type":"assert-table-uuid","uuid":"00000000-0000-0000-0000-000000000001"}`, `{"action":"set-properties","updates":{"k":"v"}}`)
		err := b.cat.CommitTransaction(ctx, b.call(), []catalog.TableCommit{{x, b.set("k", "1")}, {z, b.stagedCommit(staged)}, {y, bad}})
		b.wantCode(err, fault.Conflict, catalog.CodeCommitFailed)
		err = b.cat.CommitTransaction(ctx, b.call(), []catalog.TableCommit{{x, b.set("k", "1")}, {x, b.set("k", "2")}})
		b.wantCode(err, fault.Invalid, catalog.CodeBadRequest)
		if got := len(b.keys()); got != files {
			b.t.Errorf("%d files after failed transactions, want %d", got, files)
		}
		b.wantCode(b.cat.Exists(ctx, b.call(), catalog.KindTable, z), fault.NotFound, catalog.CodeNoSuchTable)
		b.must(b.cat.CommitTransaction(ctx, b.call(), []catalog.TableCommit{{z, b.stagedCommit(staged)}, {y, b.set("k", "1")}, {x, b.set("k", "1")}}))
		for _, id := range []catalog.Identifier{x, y} {
			t, err := metadataOf(b, id)
			b.must(err)
			if t.Properties()["k"] != "1" {
				b.t.Errorf("%s: %v", id, t.Properties())
			}
		}
		b.must(b.cat.Exists(ctx, b.call(), catalog.KindTable, z))
		// A name that is being purged is refused inside a transaction too, with all of it.
		j, err := b.drop(z, true)
		b.must(err)
		err = b.cat.CommitTransaction(ctx, b.call(), []catalog.TableCommit{{x, b.set("k", "2")}, {z, b.stagedCommit(staged)}})
		if fault.KindOf(err) != fault.Conflict {
			b.t.Errorf("transaction over a purged name: %v", err)
		}
		t, err := metadataOf(b, x)
		b.must(err)
		if t.Properties()["k"] != "1" {
			b.t.Error("half of a transaction was applied")
		}
		b.settle(j, nil)
		b.invariants()
	})
}
