// Package spark drives a built server through Spark's SQL, with Iceberg's own runtime:
// the cases are the Python files beside this one, each is a subtest here.
//
// Spark and the runtime are fetched once, by `make test` or by hand:
//
//	python3 -m venv .cache/spark
//	.cache/spark/bin/pip install --no-deps -r test/conformance/spark/requirements.txt
//	mvn dependency:copy -Dartifact=$(cat test/conformance/spark/runtime.txt) -DoutputDirectory=.cache/spark/jars
package spark

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lethe-project/lethe/test/proc"
	"github.com/lethe-project/lethe/test/responder"
)

// envHome names the virtual environment with Spark; below its jars/ lies the runtime.
const envHome = "LETHE_SPARK"

func TestSpark(t *testing.T) {
	t.Parallel()
	interpreter, jar := find(t)
	server := proc.Start(t, proc.Options{})
	uri := responder.New(t).Proxy(t, server.URI)
	cmd := exec.CommandContext(t.Context(), interpreter, "run.py", uri, server.Token(t), server.Warehouse(), jar, t.TempDir())
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore", "PYSPARK_PYTHON="+interpreter)
	cmd.WaitDelay = time.Minute // the JVM holds the pipe a little longer than Python
	proc.Cases(t, cmd)
	for _, drop := range []struct{ table, purge string }{
		{"keep.t", "false"},
		{"purge.t", "true"},        // rest-catalog-purge=true: the server is asked
		{"purge_spark.t", "false"}, // without it Spark deletes the files itself
		{"upkeep.t", "true"},
	} {
		t.Run("log of "+drop.table, func(t *testing.T) {
			pattern, line := regexp.MustCompile(`action=table.drop .*name=`+regexp.QuoteMeta(drop.table)+` .*\n`), ""
			proc.Eventually(t, time.Minute, "the drop is logged", func() bool { // its answer may be faster
				line = pattern.FindString(server.Log())
				return line != ""
			})
			if !strings.Contains(line, " purgeRequested="+drop.purge+" ") {
				t.Errorf("the drop's line is %q, want purgeRequested=%s", line, drop.purge)
			}
		})
	}
}

// find returns Python with Spark, and Iceberg's runtime. Without them the test is
// skipped; CI must have them.
func find(t *testing.T) (interpreter, jar string) {
	t.Helper()
	missing := t.Skipf
	if os.Getenv("CI") == "true" {
		missing = t.Fatalf
	}
	home := os.Getenv(envHome)
	if home == "" {
		home = filepath.Join(proc.Root(t), ".cache", "spark")
	}
	interpreter = filepath.Join(home, "bin", "python")
	if _, err := os.Stat(interpreter); err != nil {
		missing("no Python with Spark (`make test` installs it): %v", err)
	}
	if _, err := exec.LookPath("java"); err != nil {
		missing("Spark needs Java: %v", err)
	}
	coordinates, err := os.ReadFile("runtime.txt")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(strings.TrimSpace(string(coordinates)), ":")
	jar = filepath.Join(home, "jars", parts[1]+"-"+parts[2]+".jar")
	if _, err := os.Stat(jar); err != nil {
		missing("no Iceberg runtime for Spark (`make test` fetches it): %v", err)
	}
	return interpreter, jar
}
