package server_test

import (
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/server"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// A key that the store does not know any more holds a purge up and costs it no attempt;
// with a new one it goes on by itself.
func TestKeyRotatedUnderAPurge(t *testing.T) {
	t.Parallel()
	for _, s := range sqldbtest.Servers(t) {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			store := newSignedStore(t, "first")
			env := map[string]string{server.SecretKeyVariable: "k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}
			args := []string{"--async-purge-max-attempts=1", "--async-purge-retry-base-ms=10"}
			if s.Name != sqldb.SQLite {
				args = append(args, "--database="+s.URL(t))
			}
			r := start(t, config(t, t.TempDir(), env, args...))
			const first = "/iceberg/v1/first/namespaces"
			r.want(201, "POST", "/v1/warehouses", store.warehouse("first", "first", "AKIAFIRST0001", firstSecret))
			r.want(200, "POST", first, `{"namespace":["n"]}`)
			r.want(200, "POST", first+"/n/tables", create)

			store.revoke("AKIAFIRST0001")
			name := r.want(204, "DELETE", first+"/n/tables/t?purgeRequested=true", "", "X-Gravitino-Async-Purge", "true").header.Get("X-Lethe-Job")
			r.eventually(func() bool { return strings.Count(r.log.String(), "job attempt failed") > 1 })
			var held struct {
				State    string
				Attempts int
			}
			decode(t, r.want(200, "GET", "/v1/jobs/"+name, ""), &held)
			if held.Attempts != 0 || held.State == "FAILED" || objects(t, store.backend, "first") != 1 {
				t.Errorf("with a key that is not known: %+v, %d objects", held, objects(t, store.backend, "first"))
			}
			// A change to what does not work either is refused, and the job waits on.
			r.want(400, "PATCH", "/v1/warehouses/first", `{"credentials":{"type":"static","accessKeyId":"AKIAFIRST0001","secretAccessKey":"`+newSecret+`"}}`)
			r.want(200, "PATCH", "/v1/warehouses/first", `{"credentials":{"type":"static","accessKeyId":"AKIANEW00003","secretAccessKey":"`+newSecret+`"}}`)
			if j := r.job(name); j.State != "SUCCEEDED" || objects(t, store.backend, "first") != 0 {
				t.Errorf("with the new key: %+v, %d objects left", j, objects(t, store.backend, "first"))
			}
			noSecrets(t, "the log", r.log.String())
		})
	}
}
