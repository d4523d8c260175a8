// Package pyiceberg drives a built server through PyIceberg, an ordinary client: the
// cases are the Python files beside this one, each is a subtest here.
package pyiceberg

import (
	"os"
	"os/exec"
	"testing"

	"github.com/lethe-project/lethe/test/conformance/storages"
	"github.com/lethe-project/lethe/test/proc"
	"github.com/lethe-project/lethe/test/responder"
)

func TestPyIceberg(t *testing.T) {
	t.Parallel()
	interpreter := proc.Python(t)
	for _, place := range storages.All(t) {
		t.Run(place.Name, func(t *testing.T) {
			t.Parallel()
			// Blocked purges come again soon, however long they are blocked.
			server, store := place.Start(t, "--async-purge-retry-base-ms", "200", "--async-purge-max-attempts", "1000")
			uri := responder.New(t).Proxy(t, server.URI)
			cmd := exec.CommandContext(t.Context(), interpreter, "run.py", uri, server.Token(t), store.Root, os.Getenv(storages.Env))
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore")
			proc.Cases(t, cmd)
		})
	}
}
