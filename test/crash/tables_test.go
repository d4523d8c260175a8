package crash

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/local"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// unsynced is a local bucket whose files need not survive a loss of power: thousands of
// them are made in a second.
type unsynced struct {
	*local.Bucket
	dir string
}

func (u unsynced) Put(_ context.Context, key blob.Key, body io.Reader) error {
	path := filepath.Join(u.dir, filepath.FromSlash(string(key)))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o644)
}

// openSpace opens a warehouse directory beside the server, to make and to look at files.
func openSpace(t *testing.T, dir string) *blob.Space {
	t.Helper()
	bucket, err := local.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bucket.Close() })
	root, err := blob.ParseLocation("file://" + dir)
	if err != nil {
		t.Fatal(err)
	}
	space, err := blob.NewSpace(blob.Mount{Root: root, Bucket: unsynced{bucket, dir}})
	if err != nil {
		t.Fatal(err)
	}
	return space
}

// location of a table, explicit, so that siblings can be neighbours by name.
func (w *world) location(name string) string { return "file://" + w.dir + "/crash/" + name }

// table makes a table with something at each level, by code, and registers it.
func (w *world) table(name string) purgetest.Table {
	w.t.Helper()
	b := purgetest.New(w.t.Context(), w.space, w.location(name), purgetest.Options{LogMax: 3})
	b.Append(5).Statistics().PositionDeletes(2).Statistics().Remove().Rewrite().Append(3).Expire(1, true).Append(1)
	table, err := b.Table()
	if err != nil {
		w.t.Fatal(err)
	}
	w.register(name, table)
	return table
}

// bigTable is a table of one snapshot with many data files.
func (w *world) bigTable(name string, files int) purgetest.Table {
	w.t.Helper()
	table, err := purgetest.Synthetic{Files: files, PerManifest: max(files/20, 1), Exist: true}.Write(w.t.Context(), w.space, w.location(name))
	if err != nil {
		w.t.Fatal(err)
	}
	w.register(name, table)
	return table
}

func (w *world) register(name string, table purgetest.Table) {
	w.t.Helper()
	if err := purgetest.Complete(w.t.Context(), w.space, table.Metadata); err != nil {
		w.t.Fatal(err)
	}
	w.call(http.StatusOK, http.MethodPost, catalogPath+"/crash/register", registration(name, table))
}

func registration(name string, table purgetest.Table) map[string]any {
	return map[string]any{"name": name, "metadata-location": table.Metadata}
}

// neighbours makes what a purge of "victim" must leave alone: tables beside it, one with
// a name that begins like its own, and files that belong to nobody.
func (w *world) neighbours() {
	w.t.Helper()
	w.table("victim2")
	w.table("sibling")
	for _, uri := range []string{w.location("stray.parquet"), "file://" + w.dir + "/elsewhere/data.parquet"} {
		if err := purgetest.Write(w.t.Context(), w.space, uri, []byte("PAR1")); err != nil {
			w.t.Fatal(err)
		}
	}
}
