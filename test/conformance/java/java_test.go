// Package java runs Apache Iceberg's own suites for catalogs, CatalogTests and
// ViewCatalogTests, against a built server. The Maven project beside this file subclasses
// them; every Java test is a subtest here.
package java

import (
	"bytes"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/proc"
	"github.com/lethe-project/lethe/test/responder"
)

const emptyNamespace = "the empty namespace cannot be named in the protocol: Iceberg's REST client refuses to send it"

// exceptions are the tests that do not pass, and why; docs/conformance.md lists them too.
// One that passes after all fails the run until it is taken off both lists.
var exceptions = map[string]string{
	"LetheCatalogTest/testLoadTableWithMissingMetadataFile(Path)": "metadata files never change and are read once: " +
		"one that was removed behind the server's back shows on a cold load only (missingMetadataFileOnAColdLoad)",
	"LetheCatalogTest/createAndDropEmptyNamespace":         emptyNamespace,
	"LetheCatalogTest/listNamespacesWithEmptyNamespace":    emptyNamespace,
	"LetheCatalogTest/listTablesInEmptyNamespace":          emptyNamespace,
	"LetheCatalogTest/namespacePropertiesOnEmptyNamespace": emptyNamespace,
	"LetheViewCatalogTest/listViewsInEmptyNamespace":       emptyNamespace,
}

// suites are the classes that must report, and the least number of tests in each:
// Iceberg adds some with every version and a vanished one would not be noticed.
var suites = map[string]int{"LetheCatalogTest": 107, "LetheViewCatalogTest": 51}

// clients are the settings of the client that the suites run with: the first on every
// database, the others on SQLite.
var clients = []struct{ name, properties string }{
	{"plain", ""},
	{"pages and refs", "rest-page-size=1,snapshot-loading-mode=refs"},
}

func TestIcebergSuites(t *testing.T) {
	t.Parallel()
	needMaven(t)
	for _, db := range sqldbtest.Servers(t) {
		for i, client := range clients {
			if i > 0 && db.Name != sqldb.SQLite {
				break
			}
			t.Run(string(db.Name)+" "+client.name, func(t *testing.T) { // one JVM at a time
				allowed := t.TempDir()
				server := proc.Start(t, proc.Options{
					Database: db.URL(t),
					Args:     []string{"--warehouse-allowed-locations", "file://" + allowed},
				})
				reports := maven(t,
					"LETHE_URI="+responder.New(t).Proxy(t, server.URI)+responder.Base, "LETHE_TOKEN="+server.Token(t),
					"LETHE_LOCATIONS=file:"+allowed, "LETHE_CLIENT="+client.properties)
				for class, least := range suites {
					report(t, reports, class, least)
				}
			})
		}
	}
}

// report turns the Java tests of a class into subtests.
func report(t *testing.T, reports, class string, least int) {
	t.Helper()
	cases := read(t, filepath.Join(reports, "TEST-lethe.conformance."+class+".xml"))
	if len(cases) < least {
		t.Errorf("%s has %d tests, want %d at least", class, len(cases), least)
	}
	for _, c := range cases {
		name := class + "/" + c.Name
		t.Run(name, func(t *testing.T) { c.settle(t, exceptions[name]) })
	}
}

func TestExceptionsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(proc.Root(t), "docs", "conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range exceptions {
		_, test, _ := strings.Cut(name, "/")
		test, _, _ = strings.Cut(test, "(")
		if !bytes.Contains(text, []byte("`"+test+"`")) {
			t.Errorf("docs/conformance.md does not list %s", test)
		}
	}
}

// maven runs the suites and returns the folder of their reports.
func maven(t *testing.T, env ...string) string {
	t.Helper()
	build := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "mvn", "--batch-mode", "--quiet", "test",
		"-Dbuild.dir="+build, "-Dmaven.test.failure.ignore=true")
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mvn test: %v\n%s", err, out)
	}
	return filepath.Join(build, "surefire-reports")
}

// testcase is one test in a report of Surefire.
type testcase struct {
	Name    string   `xml:"name,attr"`
	Seconds string   `xml:"time,attr"`
	Failure *problem `xml:"failure"`
	Error   *problem `xml:"error"`
	Skipped *problem `xml:"skipped"`
}

type problem struct {
	Message string `xml:"message,attr"`
	Trace   string `xml:",chardata"`
}

func read(t *testing.T, path string) []testcase {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var suite struct {
		Cases []testcase `xml:"testcase"`
	}
	if err := xml.Unmarshal(raw, &suite); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return suite.Cases
}

// settle turns the Java test's end into this one's. A test that Java skips counts as one
// that does not pass.
func (c testcase) settle(t *testing.T, exception string) {
	t.Helper()
	t.Logf("took %s s", c.Seconds)
	for _, p := range []*problem{c.Failure, c.Error, c.Skipped} {
		switch {
		case p == nil:
		case exception != "":
			t.Logf("does not pass, as known: %s", exception)
			return
		default:
			t.Errorf("%s\n%s", p.Message, p.Trace)
			return
		}
	}
	if exception != "" {
		t.Errorf("it passes: take it off the list of exceptions, here and in docs/conformance.md (%s)", exception)
	}
}

// needMaven skips the test where Java and Maven are missing; CI must have them.
func needMaven(t *testing.T) {
	t.Helper()
	for _, program := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("Iceberg's Java suites must run in CI: %v", err)
			}
			t.Skipf("Iceberg's Java suites need Java 17 and Maven: %v", err)
		}
	}
}
