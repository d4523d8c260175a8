package catalog_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
)

func TestTableLife(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		n := b.namespace("n")
		id := ident(n, "t")
		created := b.create(id)
		_, err := b.cat.CreateTable(ctx, b.call(), n, b.request("t"))
		b.wantCode(err, fault.Conflict, catalog.CodeAlreadyExists)
		committed, err := b.cat.CommitTable(ctx, b.call(), id, b.set("k", "v"))
		b.must(err)
		if !strings.Contains(committed.MetadataLocation, "/metadata/00001-") {
			b.t.Errorf("second metadata file is %s", committed.MetadataLocation)
		}
		if got := committed.Table.PreviousFiles(); !cmp.Equal(got, []string{created.MetadataLocation}) {
			b.t.Errorf("metadata log %v", got)
		}
		same, err := b.cat.CommitTable(ctx, b.call(), id, b.commit(`{"type":"assert-table-uuid","uuid":"`+created.Table.UUID()+`"}`, ""))
		b.must(err)
		if same.MetadataLocation != committed.MetadataLocation {
			b.t.Error("a commit without a change wrote a file")
		}
		loaded, err := b.cat.LoadTable(ctx, b.call(), id)
		b.must(err)
		if loaded.MetadataLocation != committed.MetadataLocation || loaded.Table.Properties()["k"] != "v" {
			b.t.Errorf("loaded %s, %v", loaded.MetadataLocation, loaded.Table.Properties())
		}
		_, err = b.cat.CommitTable(ctx, b.call(), id, b.commit(`{"type":"assert-table-uuid","uuid":"00000000-0000-0000-0000-000000000001"}`, ""))
		b.wantCode(err, fault.Conflict, catalog.CodeCommitFailed)

		other := b.namespace("n", "m")
		b.must(b.cat.Rename(ctx, b.call(), catalog.KindTable, id, ident(other, "u")))
		b.wantCode(b.cat.Exists(ctx, b.call(), catalog.KindTable, id), fault.NotFound, catalog.CodeNoSuchTable)
		b.create(id)
		b.wantCode(b.cat.Rename(ctx, b.call(), catalog.KindTable, id, ident(other, "u")), fault.Conflict, catalog.CodeAlreadyExists)
		b.wantCode(b.cat.Rename(ctx, b.call(), catalog.KindTable, id, ident(catalog.Namespace{"x"}, "u")), fault.NotFound, catalog.CodeNoSuchNamespace)
		b.wantCode(b.cat.DropNamespace(ctx, b.call(), other), fault.Conflict, catalog.CodeNamespaceNotEmpty)

		files := len(b.keys())
		j, err := b.drop(id, false)
		b.must(err)
		if j != 0 || len(b.keys()) != files {
			b.t.Errorf("a drop without purge made job %d and left %d of %d files", j, len(b.keys()), files)
		}
		_, err = b.drop(id, false)
		b.wantCode(err, fault.NotFound, catalog.CodeNoSuchTable)
		b.invariants()
	})
}

func TestStagedCreate(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		id := ident(b.namespace("n"), "t")
		staged := b.create(id, `"stage-create":true`)
		if len(b.keys()) != 0 || staged.MetadataLocation != "" {
			b.t.Fatalf("a staged create wrote %v", b.keys())
		}
		loaded, err := b.cat.CommitTable(ctx, b.call(), id, b.stagedCommit(staged))
		b.must(err)
		if loaded.Table.UUID() != staged.Table.UUID() || loaded.Table.Location() != staged.Table.Location() {
			b.t.Errorf("uuid %s at %s", loaded.Table.UUID(), loaded.Table.Location())
		}
		_, err = b.cat.CommitTable(ctx, b.call(), id, b.stagedCommit(staged))
		b.wantCode(err, fault.Conflict, catalog.CodeCommitFailed)
		b.invariants()
	})
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		n := b.namespace("n")
		b.create(ident(n, "t"), `"location":"s3a://lake/wh/x/./t/"`)
		for name, tc := range map[string]struct {
			extra string
			code  fault.Code
		}{
			"the same":             {`"location":"s3://lake/wh/x/t"`, catalog.CodeLocationTaken},
			"inside":               {`"location":"s3n://lake/wh/x/t/data/y"`, catalog.CodeLocationTaken},
			"around":               {`"location":"s3://lake/wh/x"`, catalog.CodeLocationTaken},
			"around by dots":       {`"location":"s3://lake/wh/x/t/../../x/t"`, catalog.CodeLocationTaken},
			"a namespace's parent": {`"location":"s3://lake/wh/n"`, catalog.CodeLocationTaken},
			"data inside":          {`"location":"s3://lake/wh/y","properties":{"write.data.path":"s3://lake/wh/x/t/d"}`, catalog.CodeLocationTaken},
			"the root":             {`"location":"s3://lake/wh"`, catalog.CodeBadLocation},
			"another bucket":       {`"location":"s3://other/wh/z"`, catalog.CodeBadLocation},
			"beside the root":      {`"location":"s3://lake/wh2/z"`, catalog.CodeBadLocation},
			"out by dots":          {`"location":"s3://lake/wh/../z"`, catalog.CodeBadLocation},
			"metadata elsewhere":   {`"location":"s3://lake/wh/z","properties":{"write.metadata.path":"s3://lake/z"}`, catalog.CodeBadLocation},
		} {
			_, err := b.cat.CreateTable(ctx, b.call(), n, b.request("u", tc.extra))
			if fault.CodeOf(err) != tc.code {
				b.t.Errorf("%s: %v, want %s", name, err, tc.code)
			}
		}
		files := b.keys()
		if len(files) != 1 {
			b.t.Errorf("refused creates left %v", files)
		}
		b.create(ident(n, "sibling"), `"location":"s3://lake/wh/x/t2"`)
		// A commit that moves the table claims the new place and keeps the old one.
		_, err := b.cat.CommitTable(ctx, b.call(), ident(n, "t"), b.commit("", `{"action":"set-location","location":"s3://lake/wh/x/t2/in"}`))
		if fault.KindOf(err) != fault.Conflict {
			b.t.Errorf("moved into another table: %v", err)
		}
		_, err = b.cat.CommitTable(ctx, b.call(), ident(n, "t"), b.commit("", `{"action":"set-location","location":"s3://lake/wh/x/t3"}`))
		b.must(err)
		_, err = b.cat.CreateTable(ctx, b.call(), n, b.request("v", `"location":"s3://lake/wh/x/t"`))
		b.wantCode(err, fault.Conflict, catalog.CodeLocationTaken)
		b.invariants()
	})
}

func TestRegister(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		n := b.namespace("n")
		first := b.create(ident(n, "a"))
		_, err := b.cat.RegisterTable(ctx, b.call(), ident(n, "a"), first.MetadataLocation, false)
		b.wantCode(err, fault.Conflict, catalog.CodeAlreadyExists)
		_, err = b.cat.RegisterTable(ctx, b.call(), ident(n, "x"), rootURI+"/n/none/metadata/v1.metadata.json", false)
		b.wantCode(err, fault.NotFound, catalog.CodeMissingMetadata)
		_, err = b.cat.RegisterTable(ctx, b.call(), ident(n, "x"), "s3://other/v1.metadata.json", false)
		b.wantCode(err, fault.Invalid, catalog.CodeBadLocation)
		b.must(b.bucket.Put(ctx, "junk.json", strings.NewReader(`{"format-version":`)))
		_, err = b.cat.RegisterTable(ctx, b.call(), ident(n, "x"), rootURI+"/junk.json", false)
		b.wantCode(err, fault.Invalid, catalog.CodeDamagedMetadata)

		_, err = b.cat.RegisterTable(ctx, b.call(), ident(n, "twin"), first.MetadataLocation, false)
		b.must(err)
		b.invariants()
		for _, name := range []string{"a", "twin"} {
			_, err := b.drop(ident(n, name), true)
			b.wantCode(err, fault.Conflict, catalog.CodeShared)
		}
		_, err = b.drop(ident(n, "twin"), false)
		b.must(err)
		j, err := b.drop(ident(n, "a"), true)
		b.must(err)
		_, err = b.cat.RegisterTable(ctx, b.call(), ident(n, "again"), first.MetadataLocation, false)
		b.wantCode(err, fault.Conflict, catalog.CodePurging)
		b.settle(j, nil)
		b.invariants()
	})
}

// The name, the uuid and the places of a purged table are taken until its job settles.
func TestTombstone(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		n := b.namespace("n")
		id := ident(n, "t")
		old := b.create(id, `"location":"`+rootURI+`/x/t"`)
		other := b.create(ident(n, "other"))
		staged := b.create(ident(n, "later"), `"stage-create":true`)
		j, err := b.drop(id, true)
		b.must(err)

		tries := map[string]func() error{
			"create": func() error { _, err := b.cat.CreateTable(ctx, b.call(), n, b.request("t")); return err },
			"commit of a staged create": func() error {
				_, err := b.cat.CommitTable(ctx, b.call(), id, b.stagedCommit(staged))
				return err
			},
			"register": func() error {
				_, err := b.cat.RegisterTable(ctx, b.call(), id, other.MetadataLocation, false)
				return err
			},
			"rename to it": func() error { return b.cat.Rename(ctx, b.call(), catalog.KindTable, ident(n, "other"), id) },
		}
		for name, try := range tries {
			if err := try(); fault.CodeOf(err) != catalog.CodePurging || !strings.Contains(err.Error(), b.jobs.Name(j)) {
				b.t.Errorf("%s: %v, want a conflict that names %s", name, err, b.jobs.Name(j))
			}
		}
		b.wantCode(b.cat.Exists(ctx, b.call(), catalog.KindTable, id), fault.NotFound, catalog.CodeNoSuchTable)
		_, err = b.cat.CommitTable(ctx, b.call(), id, b.set("a", "b"))
		b.wantCode(err, fault.NotFound, catalog.CodeNoSuchTable)
		_, err = b.drop(id, true)
		b.wantCode(err, fault.NotFound, catalog.CodeNoSuchTable)
		place := `"location":"` + rootURI + `/x/t/y"`
		_, err = b.cat.CreateTable(ctx, b.call(), n, b.request("u", place))
		b.wantCode(err, fault.Conflict, catalog.CodeLocationTaken)

		// FAILED frees the name, and keeps the place until it is acknowledged.
		b.settle(j, job.Terminal(errLost))
		b.create(id)
		_, err = b.cat.CreateTable(ctx, b.call(), n, b.request("u", place))
		b.wantCode(err, fault.Conflict, catalog.CodeLocationTaken)
		_, err = b.cat.RegisterTable(ctx, b.call(), ident(n, "r"), old.MetadataLocation, false)
		b.wantCode(err, fault.Conflict, catalog.CodePurging)
		_, err = b.jobs.Jobs().Ack(ctx, j)
		b.must(err)
		_, err = b.cat.RegisterTable(ctx, b.call(), ident(n, "r"), old.MetadataLocation, false)
		b.must(err)
		// A live table has its metadata again: the job must not run.
		_, err = b.jobs.Jobs().Retry(ctx, j, job.RetryOptions{})
		b.wantCode(err, fault.Conflict, catalog.CodeShared)
		_, err = b.drop(ident(n, "r"), false)
		b.must(err)
		// Nor when its place was given away since.
		b.create(ident(n, "u"), place)
		_, err = b.jobs.Jobs().Retry(ctx, j, job.RetryOptions{})
		b.wantCode(err, fault.Conflict, catalog.CodeLocationTaken)
		_, err = b.drop(ident(n, "u"), false)
		b.must(err)
		row, err := b.jobs.Jobs().Retry(ctx, j, job.RetryOptions{AcceptMissing: true})
		b.must(err)
		if row.State != job.Pending {
			b.t.Errorf("state %s after the retry", row.State)
		}
		got, err := b.jobs.Get(ctx, b.db, j)
		b.must(err)
		if !got.AcceptMissing {
			b.t.Error("accept-missing was not kept")
		}
		_, err = b.cat.CreateTable(ctx, b.call(), n, b.request("u", place))
		b.wantCode(err, fault.Conflict, catalog.CodeLocationTaken)
		b.settle(j, nil)
		b.create(ident(n, "u"), place)
		b.invariants()
	})
}

// What cannot be read can still be dropped, with and without purge.
func TestDropNeedsNoMetadata(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		n := b.namespace("n")
		for _, name := range []string{"plain", "purged"} {
			b.create(ident(n, name))
		}
		for _, key := range b.bucket.Keys() {
			b.bucket.DeleteMany(b.t.Context(), []blobKey{key})
		}
		_, err := b.drop(ident(n, "plain"), false)
		b.must(err)
		j, err := b.drop(ident(n, "purged"), true)
		b.must(err)
		got, err := b.jobs.Get(b.t.Context(), b.db, j)
		b.must(err)
		if got.MetadataLocation == "" || len(got.Locations) != 1 || got.Namespace != `["n"]` || got.Name != "purged" {
			b.t.Errorf("job %+v", got)
		}
	})
}

func TestOldMetadataGoesAfterCommit(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		id := ident(b.namespace("n"), "t")
		b.create(id, `"properties":{"write.metadata.previous-versions-max":"2","write.metadata.delete-after-commit.enabled":"true","write.metadata.compression-codec":"gzip"}`)
		for _, v := range []string{"1", "2", "3", "4", "5"} {
			_, err := b.cat.CommitTable(ctx, b.call(), id, b.set("k", v))
			b.must(err)
		}
		keys := b.keys()
		if len(keys) != 3 {
			b.t.Errorf("%d metadata files, want the newest and two before it: %v", len(keys), keys)
		}
		for _, k := range keys {
			if !strings.HasSuffix(k, ".gz.metadata.json") {
				b.t.Errorf("%s is not named as gzip", k)
			}
		}
		_, err := metadataOf(b, id)
		b.must(err)
	})
}

func metadataOf(b *bench, id catalog.Identifier) (*metadata.Table, error) {
	l, err := b.cat.LoadTable(b.t.Context(), b.call(), id)
	if err != nil {
		return nil, err
	}
	return l.Table, nil
}
