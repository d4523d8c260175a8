// Package pyiceberg drives a built server through PyIceberg, an ordinary client: the
// cases are the Python files beside this one, each is a subtest here.
package pyiceberg

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/proc"
)

func TestPyIceberg(t *testing.T) {
	t.Parallel()
	interpreter := proc.Python(t)
	for _, db := range sqldbtest.Servers(t) {
		t.Run(string(db.Name), func(t *testing.T) {
			t.Parallel()
			server := proc.Start(t, proc.Options{
				Database: db.URL(t),
				Args:     []string{"--async-purge-retry-base-ms", "200"}, // blocked purges come again soon
			})
			cmd := exec.CommandContext(t.Context(), interpreter, "run.py", server.URI, server.Token(t), server.Warehouse())
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore")
			out := report(t, cmd)
			if out == 0 {
				t.Error("no case ran")
			}
		})
	}
}

// report runs the cases, turns each into a subtest, and returns how many there were.
func report(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cases := 0
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var c struct {
			Case    string
			Seconds float64
			Error   *string
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Logf("%s", lines.Text())
			continue
		}
		cases++
		t.Run(c.Case, func(t *testing.T) {
			if c.Error != nil {
				t.Error(*c.Error)
			}
			t.Logf("took %s", time.Duration(c.Seconds*float64(time.Second)).Round(time.Millisecond))
		})
	}
	if err := cmd.Wait(); err != nil || lines.Err() != nil {
		t.Errorf("run the cases: %v %v\n%s", err, lines.Err(), stderr.String())
	}
	return cases
}
