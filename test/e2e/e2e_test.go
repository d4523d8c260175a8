// Package e2e runs built servers as an operator does: restarted, in pairs, and wrongly.
package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lethe-project/lethe/client"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/proc"
)

var shop = client.Namespace{"shop"}

// connect returns a client of a server.
func connect(t *testing.T, s *proc.Server) client.Warehouse {
	t.Helper()
	return dial(t, s).Warehouse("")
}

func dial(t *testing.T, s *proc.Server) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{URI: s.URI, Token: s.Token(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// create makes a table by plain HTTP and returns its directory.
func create(t *testing.T, s *proc.Server, name string) string {
	t.Helper()
	if status, _ := post(t, s, "/iceberg/v1/default/namespaces", `{"namespace":["shop"]}`); status != 200 && status != 409 {
		t.Fatalf("create the namespace: %d", status)
	}
	body := `{"name":"` + name + `","schema":{"type":"struct","fields":[{"id":1,"name":"id","type":"long","required":false}]}}`
	status, answer := post(t, s, "/iceberg/v1/default/namespaces/shop/tables", body)
	if status != 200 {
		t.Fatalf("create %s: %d %s", name, status, answer)
	}
	_, rest, _ := strings.Cut(answer, `"location":"file://`)
	dir, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("no location in %s", answer)
	}
	return dir
}

func tables(t *testing.T, w client.Warehouse) []string {
	t.Helper()
	names := []string{}
	for id, err := range w.Tables(t.Context(), shop) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, id.Name)
	}
	slices.Sort(names)
	return names
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return err == nil
}

func TestRestart(t *testing.T) {
	t.Parallel()
	for _, db := range sqldbtest.Servers(t) {
		t.Run(string(db.Name), func(t *testing.T) {
			t.Parallel()
			s := proc.Start(t, proc.Options{Database: db.URL(t)})
			create(t, s, "kept")
			doomed := create(t, s, "doomed")
			stop := []func(testing.TB){s.Stop, s.Kill}
			for _, end := range stop {
				end(t)
				s.Start(t)
				if got := tables(t, connect(t, s)); !slices.Equal(got, []string{"doomed", "kept"}) {
					t.Fatalf("tables after a restart: %q", got)
				}
			}
			dropped, err := connect(t, s).DropTable(t.Context(), client.Identifier{Namespace: shop, Name: "doomed"}, client.DropOptions{Purge: true})
			if err != nil || dropped.State != client.Succeeded {
				t.Fatalf("drop: %+v, %v", dropped, err)
			}
			if exists(t, doomed) {
				t.Errorf("%s is left after the purge", doomed)
			}
			s.Stop(t)
			s.Start(t)
			if job, err := dial(t, s).Jobs().Get(t.Context(), dropped.Job); err != nil || job.State != client.Succeeded {
				t.Errorf("the job after a restart: %+v, %v", job, err)
			}
		})
	}
}

// TestUnfinishedPurgeGoesOnAfterRestart stops the server while a file cannot be deleted.
func TestUnfinishedPurgeGoesOnAfterRestart(t *testing.T) {
	t.Parallel()
	for _, db := range sqldbtest.Servers(t) {
		t.Run(string(db.Name), func(t *testing.T) {
			t.Parallel()
			s := proc.Start(t, proc.Options{Database: db.URL(t), Args: []string{"--async-purge-retry-base-ms", "100", "--async-purge-max-attempts", "1000"}})
			dir := create(t, s, "t")
			obstacle := filepath.Join(dir, "metadata", "in-the-way.puffin")
			statistics := `{"updates":[{"action":"set-statistics","snapshot-id":1,"statistics":{"snapshot-id":1,"statistics-path":"file://` +
				obstacle + `","file-size-in-bytes":4,"file-footer-size-in-bytes":1,"blob-metadata":[]}}],"requirements":[]}`
			if status, answer := post(t, s, "/iceberg/v1/default/namespaces/shop/tables/t", statistics); status != 200 {
				t.Fatalf("set statistics: %d %s", status, answer)
			}
			if err := os.MkdirAll(filepath.Join(obstacle, "d"), 0o750); err != nil { // a directory cannot be deleted as a file
				t.Fatal(err)
			}
			id := client.Identifier{Namespace: shop, Name: "t"}
			dropped, err := connect(t, s).DropTable(t.Context(), id, client.DropOptions{Purge: true, Async: true})
			if err != nil {
				t.Fatal(err)
			}
			s.Stop(t)
			if !exists(t, dir) {
				t.Fatal("the purge ended although a file could not be deleted")
			}
			if err := os.RemoveAll(obstacle); err != nil {
				t.Fatal(err)
			}
			s.Start(t)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			job, err := dial(t, s).Jobs().Wait(ctx, dropped.Job, client.WaitOptions{})
			if err != nil || job.State != client.Succeeded {
				t.Errorf("the job after the restart: %+v, %v", job, err)
			}
			if exists(t, dir) {
				t.Errorf("%s is left after the purge", dir)
			}
		})
	}
}

// TestDamageIsReportedAndAccepted drops a table whose metadata file is missing.
func TestDamageIsReportedAndAccepted(t *testing.T) {
	t.Parallel()
	s := proc.Start(t, proc.Options{})
	if err := os.Remove(root(t, create(t, s, "t"))); err != nil {
		t.Fatal(err)
	}
	dropped, err := connect(t, s).DropTable(t.Context(), client.Identifier{Namespace: shop, Name: "t"}, client.DropOptions{Purge: true})
	if err != nil || dropped.State != client.Failed {
		t.Fatalf("drop: %+v, %v", dropped, err)
	}
	jobs := dial(t, s).Jobs()
	if job, err := jobs.Get(t.Context(), dropped.Job); err != nil || job.LastError == "" {
		t.Errorf("the job does not say why it failed: %+v, %v", job, err)
	}
	if _, err := jobs.Retry(t.Context(), dropped.Job, client.RetryOptions{AcceptMissing: true}); err != nil {
		t.Fatal(err)
	}
	if job, err := jobs.Wait(t.Context(), dropped.Job, client.WaitOptions{}); err != nil || job.State != client.Succeeded {
		t.Errorf("after retry --accept-missing: %+v, %v", job, err)
	}
}

// root returns the only metadata file of a new table.
func root(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "metadata", "*.metadata.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("metadata files %q: %v", found, err)
	}
	return found[0]
}

// TestReplicas runs two servers on one database and one store.
func TestReplicas(t *testing.T) {
	t.Parallel()
	for _, db := range sqldbtest.Servers(t) {
		if db.Name == sqldb.SQLite {
			continue // one server at a time, see TestOneServerADataFolder
		}
		t.Run(string(db.Name), func(t *testing.T) {
			t.Parallel()
			storage, url := t.TempDir(), db.URL(t)
			a := proc.Start(t, proc.Options{Database: url, Args: []string{"--storage", storage}})
			b := proc.Start(t, proc.Options{Database: url, Args: []string{"--storage", storage}})
			dir := create(t, a, "t")
			create(t, b, "u")
			if got := tables(t, connect(t, a)); !slices.Equal(got, []string{"t", "u"}) {
				t.Errorf("tables that a sees: %q", got)
			}
			dropped, err := connect(t, b).DropTable(t.Context(), client.Identifier{Namespace: shop, Name: "t"}, client.DropOptions{Purge: true})
			if err != nil || dropped.State != client.Succeeded {
				t.Fatalf("drop by b of what a created: %+v, %v", dropped, err)
			}
			if exists(t, dir) {
				t.Errorf("%s is left after the purge", dir)
			}
			if got := tables(t, connect(t, a)); !slices.Equal(got, []string{"u"}) {
				t.Errorf("tables that a sees after the drop: %q", got)
			}
			job, err := dial(t, a).Jobs().Get(t.Context(), dropped.Job)
			if err != nil || job.State != client.Succeeded {
				t.Errorf("the job that a sees: %+v, %v", job, err)
			}
		})
	}
}

func TestOneServerADataFolder(t *testing.T) {
	t.Parallel()
	s := proc.Start(t, proc.Options{})
	out := refused(t, "serve", "--data", s.Data, "--listen", "127.0.0.1:0")
	if !strings.Contains(out, s.Data) {
		t.Errorf("a second server on the same data says:\n%s", out)
	}
	if got := s.Alive(); !got {
		t.Error("the first server ended")
	}
}

func TestRefusesToServeEverybody(t *testing.T) {
	t.Parallel()
	out := refused(t, "serve", "--data", t.TempDir(), "--listen", "0.0.0.0:0", "--authentication", "none")
	if !strings.Contains(out, "without authentication") {
		t.Errorf("said:\n%s", out)
	}
}

// refused runs a command that must fail soon, and returns what it says.
func refused(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, proc.Binary(t), args...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("lethe %q should fail soon: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestSecondSignalEndsAtOnce sends signals until the process has ended; its work goes on
// at the next start.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := proc.Start(t, proc.Options{})
	dir := create(t, s, "t")
	dropped, err := connect(t, s).DropTable(t.Context(), client.Identifier{Namespace: shop, Name: "t"}, client.DropOptions{Purge: true, Async: true})
	if err != nil {
		t.Fatal(err)
	}
	proc.Eventually(t, 20*time.Second, "the server ends", func() bool { // less than a drain may take
		s.Signal(t, syscall.SIGTERM)
		return !s.Alive()
	})
	s.Start(t)
	if job, err := dial(t, s).Jobs().Wait(t.Context(), dropped.Job, client.WaitOptions{}); err != nil || job.State != client.Succeeded {
		t.Errorf("the job after the restart: %+v, %v", job, err)
	}
	if exists(t, dir) {
		t.Errorf("%s is left", dir)
	}
}
