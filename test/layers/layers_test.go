// Package layers holds the rule of ARCHITECTURE.md over the real import graph: imports go
// down only, and what must stay light links nothing heavy, not even indirectly.
package layers

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	module  = "github.com/lethe-project/lethe/"
	iceberg = "github.com/apache/iceberg-go"
	tracing = "go.opentelemetry.io/"
)

// down lists, for each room, the rooms it may import. A room is the longest matching
// folder; packages below it belong to it and may import each other. A folder that is
// missing here may import nothing of the module, so that a new room is a decision.
var down = map[string][]string{
	"cmd/lethe":                 {"internal/server", "client", "internal/fault"},
	"client":                    {},
	"internal/server":           {"internal/closing", "internal/edge/iceberg", "internal/edge/admin", "internal/edge/files", "internal/drive", "internal/drive/tree", "internal/drive/content", "internal/drive/feed", "internal/drive/removal", "internal/secret", "internal/catalog", "internal/catalog/metadata", "internal/purge", "internal/tenant", "internal/job", "internal/blob", "internal/sqldb", "internal/fault", "internal/pace"},
	"internal/edge/iceberg":     {"internal/catalog", "internal/catalog/metadata", "internal/tenant", "internal/purge", "internal/job", "internal/fault"},
	"internal/edge/admin":       {"internal/tenant", "internal/job", "internal/fault"},
	"internal/catalog":          {"internal/catalog/metadata", "internal/tenant", "internal/purge", "internal/job", "internal/blob", "internal/sqldb", "internal/fault"},
	"internal/catalog/metadata": {"internal/blob", "internal/fault"},
	"internal/edge/files":       {"internal/drive", "internal/drive/tree", "internal/drive/content", "internal/drive/feed", "internal/drive/removal", "internal/tenant", "internal/job", "internal/fault"},
	"internal/drive":            {"internal/drive/removal", "internal/drive/tree", "internal/drive/content", "internal/drive/feed", "internal/job", "internal/blob", "internal/sqldb", "internal/fault"},
	"internal/drive/removal":    {"internal/drive/tree", "internal/drive/content", "internal/drive/feed", "internal/job", "internal/blob", "internal/sqldb", "internal/fault"},
	"internal/drive/tree":       {"internal/sqldb", "internal/fault"},
	"internal/drive/content":    {"internal/blob", "internal/sqldb", "internal/fault"},
	"internal/drive/feed":       {"internal/sqldb", "internal/fault"},
	"internal/drive/drivetest":  {"internal/drive/tree", "internal/drive/content", "internal/drive/feed", "internal/drive/removal", "internal/drive", "internal/job", "internal/blob", "internal/sqldb", "internal/fault"},
	"internal/secret":           {"internal/fault"},
	"internal/closing":          {"internal/job", "internal/sqldb", "internal/fault"},
	"internal/purge":            {"internal/job", "internal/blob", "internal/sqldb", "internal/fault", "internal/pace"},
	"internal/tenant":           {"internal/secret", "internal/blob", "internal/sqldb", "internal/fault"},
	"internal/job":              {"internal/sqldb", "internal/fault"},
	"internal/blob":             {"internal/fault", "internal/pace"},
	"internal/sqldb":            {"internal/fault"},
	"internal/pace":             {},
	"internal/fault":            {},
}

// never lists what a room must not link, with tests or, where noted, without.
var never = []struct {
	room  string
	parts []string // of import paths
	tests bool     // the room's tests must not link it either
}{
	{"client", []string{"database/sql", "modernc.org", "jackc/pgx", "apache/arrow-go", iceberg, module + "internal", tracing}, false},
	{"internal/purge", []string{iceberg, "apache/arrow-go", tracing}, true},
	{"internal/job", []string{iceberg, "apache/arrow-go", tracing}, true},
	{"internal/blob", []string{iceberg, "apache/arrow-go", "database/sql", tracing}, true},
	{"internal/sqldb", []string{iceberg, "apache/arrow-go", tracing}, true},
	{"internal/tenant", []string{iceberg, "apache/arrow-go", tracing}, true},
	{"internal/drive", []string{iceberg, "apache/arrow-go", module + "internal/catalog", module + "internal/purge", tracing}, true},
	{"internal/fault", []string{"database/sql", "net/http", "github.com"}, false},
}

type pkg struct {
	ImportPath string
	ForTest    string
	Imports    []string
	Deps       []string
}

// load lists the module's packages with all they import; with tests, also the test
// variants and test binaries.
func load(t *testing.T, flags ...string) []pkg {
	t.Helper()
	args := append([]string{"list", "-json=ImportPath,ForTest,Imports,Deps"}, flags...)
	out, err := exec.CommandContext(t.Context(), "go", append(args, module+"...")...).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// room returns the room of an import path of this module, or "".
func room(path string) string {
	rel, ok := strings.CutPrefix(path, module)
	if !ok {
		return ""
	}
	found := ""
	for name := range maps.Keys(down) {
		if (rel == name || strings.HasPrefix(rel, name+"/")) && len(name) > len(found) {
			found = name
		}
	}
	return found
}

func TestImportsGoDownOnly(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"", "lethe_crash"} {
		t.Run("tags="+tag, func(t *testing.T) {
			t.Parallel()
			checked := 0
			for _, p := range load(t, "-tags", tag) {
				rel := strings.TrimPrefix(p.ImportPath, module)
				if strings.HasPrefix(rel, "test/") {
					continue // tests of the whole may look everywhere
				}
				from := room(p.ImportPath)
				if from == "" {
					t.Errorf("%s is in no room: name it in down, in .golangci.yml and in ARCHITECTURE.md", rel)
					continue
				}
				for _, imported := range p.Imports {
					if !strings.HasPrefix(imported, module) {
						continue
					}
					checked++
					if to := room(imported); to != from && !slices.Contains(down[from], to) {
						t.Errorf("%s imports %s: %s may import %v only", rel, strings.TrimPrefix(imported, module), from, down[from])
					}
				}
			}
			if checked < 10 {
				t.Errorf("only %d imports were looked at", checked)
			}
		})
	}
}

func TestOnlyMetadataImportsIcebergTables(t *testing.T) {
	t.Parallel()
	seen := false
	for _, p := range load(t) {
		if strings.HasPrefix(p.ImportPath, module+"test/") || !slices.Contains(p.Imports, iceberg+"/table") {
			continue
		}
		if p.ImportPath == module+"internal/catalog/metadata" {
			seen = true
			continue
		}
		t.Errorf("%s imports iceberg-go/table, whose panics only catalog/metadata recovers", p.ImportPath)
	}
	if !seen {
		t.Error("catalog/metadata does not import iceberg-go/table: this test looks at the wrong thing")
	}
}

func TestOnlyServerImportsTracing(t *testing.T) {
	t.Parallel()
	seen := false
	for _, p := range load(t) {
		for _, imported := range p.Imports {
			if !strings.HasPrefix(imported, tracing) {
				continue
			}
			if room(p.ImportPath) == "internal/server" {
				seen = true
				continue
			}
			t.Errorf("%s imports %s: only server knows OpenTelemetry, rooms tell events to functions", p.ImportPath, imported)
		}
	}
	if !seen {
		t.Error("server does not import OpenTelemetry: this test looks at the wrong thing")
	}
}

func TestLightRoomsLinkNothingHeavy(t *testing.T) {
	t.Parallel()
	all := load(t, "-test")
	for _, rule := range never {
		t.Run(rule.room, func(t *testing.T) {
			t.Parallel()
			found := false
			for _, p := range all {
				path, isTest := strings.CutSuffix(p.ImportPath, ".test")
				if room(path) != rule.room || p.ForTest != "" || isTest && !rule.tests {
					continue
				}
				found = true
				for _, dep := range p.Deps {
					if i := slices.IndexFunc(rule.parts, func(part string) bool { return strings.Contains(dep, part) }); i >= 0 {
						t.Errorf("%s links %s", p.ImportPath, dep)
					}
				}
			}
			if !found {
				t.Errorf("no package is in %s", rule.room)
			}
		})
	}
}
