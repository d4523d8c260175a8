package server_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	promql "github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/lethe-project/lethe/internal/server"
)

const root = "../../"

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(root + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// documented returns the metrics of the tables in docs/operating.md, with their types.
func documented(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(lethe_[a-z_]+)` \\| (counter|gauge|histogram)").FindAllStringSubmatch(read(t, "docs/operating.md"), -1) {
		if out[m[1]] != "" {
			t.Errorf("%s is documented twice", m[1])
		}
		out[m[1]] = m[2]
	}
	if len(out) == 0 {
		t.Fatal("no metric is documented")
	}
	return out
}

// scraped returns the metrics of a server that has purged a table, with their types.
func scraped(t *testing.T) map[string]string {
	t.Helper()
	r := start(t, config(t, t.TempDir(), nil))
	r.table()
	r.want(204, "DELETE", space+"/n/tables/t?purgeRequested=true", "")
	out := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(r.want(200, "GET", "/metrics", "", "Authorization", "").body, -1) {
		out[m[1]] = m[2]
	}
	return out
}

// inSource reports the metrics whose names stand in the code, whole or as a beginning and
// a rest in one file. It is for rooms that this server does not open.
func inSource(t *testing.T) func(name string) bool {
	t.Helper()
	files := map[string][]string{}
	err := filepath.WalkDir(root+"internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					files[path] = append(files[path], text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) bool {
		for _, texts := range files {
			for _, text := range texts {
				rest, ok := strings.CutPrefix(name, text)
				whole := rest == "" && strings.HasPrefix(text, "lethe_")
				parts := strings.HasPrefix(text, "lethe_") && strings.HasSuffix(text, "_") &&
					(slices.Contains(texts, rest) || slices.Contains(texts, strings.TrimSuffix(rest, "_total")))
				if ok && (whole || parts) {
					return true
				}
			}
		}
		return false
	}
}

func TestOperatingPageHasEveryMetric(t *testing.T) {
	t.Parallel()
	docs, code, known := documented(t), scraped(t), inSource(t)
	for name, kind := range code {
		if strings.HasPrefix(name, "lethe_") && docs[name] != kind {
			t.Errorf("%s, a %s, stands in docs/operating.md as %q", name, kind, docs[name])
		}
	}
	for name := range docs {
		if code[name] == "" && !known(name) {
			t.Errorf("docs/operating.md has %s, the code has not", name)
		}
	}
	if known("lethe_purge_nothing_total") || !known("lethe_purge_completed_total") {
		t.Error("the look into the source finds too much, or too little")
	}
}

// The page names settings that there are, and has them all by its link.
func TestOperatingPageNamesSettings(t *testing.T) {
	t.Parallel()
	var table bytes.Buffer
	if err := server.WriteSettingsTable(&table); err != nil {
		t.Fatal(err)
	}
	page := read(t, "docs/operating.md")
	if !strings.Contains(page, "(settings.md)") {
		t.Error("no link to all settings")
	}
	named := regexp.MustCompile("`((?:async-purge|drive-delete|warehouse|log)\\.[a-z-]+|database-[a-z-]+)`").FindAllStringSubmatch(page, -1)
	if len(named) < 10 {
		t.Errorf("only %d settings are named", len(named))
	}
	for _, m := range named {
		if !strings.Contains(table.String(), "| `"+m[1]+"` |") {
			t.Errorf("docs/operating.md names the setting %s, which there is not", m[1])
		}
	}
	for _, link := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(root, "docs", link[1])); err != nil {
			t.Errorf("broken link: %v", err)
		}
	}
}

// used parses an expression as Prometheus does, and returns our metrics in it, each without
// what a histogram adds.
func used(docs map[string]string, expr string) (names []string, err error) {
	parsed, err := promql.NewParser(promql.Options{}).ParseExpr(strings.ReplaceAll(expr, "$__rate_interval", "5m")) // that one is Grafana's
	if err != nil {
		return nil, err
	}
	for _, selector := range promql.ExtractSelectors(parsed) {
		for _, m := range selector {
			name := m.Value
			if m.Name != model.MetricNameLabel || !strings.HasPrefix(name, "lethe_") {
				continue
			}
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if base, ok := strings.CutSuffix(name, suffix); ok && docs[base] == "histogram" {
					name = base
				}
			}
			names = append(names, name)
		}
	}
	return names, nil
}

func TestAlertRules(t *testing.T) {
	t.Parallel()
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	dec := yaml.NewDecoder(strings.NewReader(read(t, "deploy/prometheus/alerts.yml")))
	dec.KnownFields(true)
	if err := dec.Decode(&rules); err != nil {
		t.Fatal(err)
	}
	docs, page, count := documented(t), read(t, "docs/operating.md"), 0
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			count++
			names, err := used(docs, rule.Expr)
			if err != nil || len(names) == 0 && rule.Alert != "LetheDown" {
				t.Errorf("%s asks for no metric: %v", rule.Alert, err)
			}
			if _, err := model.ParseDuration(rule.For); err != nil && rule.For != "" {
				t.Errorf("%s: for: %v", rule.Alert, err)
			}
			for _, name := range names {
				if docs[name] == "" {
					t.Errorf("%s asks for %s, which there is not", rule.Alert, name)
				}
			}
			if rule.Annotations["summary"] == "" || rule.Labels["severity"] == "" {
				t.Errorf("%s has no summary, or no severity", rule.Alert)
			}
			if !strings.Contains(page, "`"+rule.Alert+"`") {
				t.Errorf("docs/operating.md does not say what to do about %s", rule.Alert)
			}
		}
	}
	if count < 10 {
		t.Errorf("only %d alerts", count)
	}
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	var board struct {
		Title, UID string
		Panels     []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "deploy/grafana/lethe.json")), &board); err != nil {
		t.Fatal(err)
	}
	docs := documented(t)
	shown, ids := map[string]bool{}, map[int]bool{}
	for _, panel := range board.Panels {
		if ids[panel.ID] || panel.Title == "" || panel.GridPos.X+panel.GridPos.W > 24 || panel.GridPos.W <= 0 {
			t.Errorf("panel %+v", panel)
		}
		ids[panel.ID] = true
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("panel %q shows nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			names, err := used(docs, target.Expr)
			if err != nil || len(names) == 0 {
				t.Errorf("panel %q: %s: %v", panel.Title, target.Expr, err)
			}
			for _, name := range names {
				shown[name] = true
				if docs[name] == "" {
					t.Errorf("panel %q asks for %s, which there is not", panel.Title, name)
				}
			}
		}
	}
	var missing []string
	for name := range docs {
		if !shown[name] {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	if diff := cmp.Diff([]string(nil), missing); diff != "" {
		t.Errorf("the dashboard leaves out (-want +got):\n%s", diff)
	}
}

func TestConnectionsAreShown(t *testing.T) {
	t.Parallel()
	r := start(t, config(t, t.TempDir(), nil, "--database-max-connections", "13"))
	metrics := r.want(200, "GET", "/metrics", "", "Authorization", "").body
	if line := "\n" + `lethe_db_connections{state="max"} 13` + "\n"; !strings.Contains(metrics, line) {
		t.Errorf("no line %q but %q", line, grep(metrics, "lethe_db_connections"))
	}
}
