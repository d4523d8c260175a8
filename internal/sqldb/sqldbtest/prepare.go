package sqldbtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// Statements returns every constant of type sqldb.Statement that the Go files of a
// folder declare (tests left out), by name. Constants may be put together from
// literals and other string constants of the same folder.
func Statements(tb testing.TB, dir string) map[string]sqldb.Statement {
	tb.Helper()
	texts := map[string]ast.Expr{}
	var named []string
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		tb.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			tb.Fatal(err)
		}
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				value := spec.(*ast.ValueSpec)
				for i, name := range value.Names {
					if i < len(value.Values) {
						texts[name.Name] = value.Values[i]
					}
					if typ, ok := value.Type.(*ast.SelectorExpr); ok && typ.Sel.Name == "Statement" {
						named = append(named, name.Name)
					}
				}
			}
		}
	}
	out := map[string]sqldb.Statement{}
	for _, name := range named {
		out[name] = sqldb.Statement(evaluate(tb, texts, texts[name]))
	}
	return out
}

func evaluate(tb testing.TB, texts map[string]ast.Expr, e ast.Expr) string {
	tb.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		if err != nil {
			tb.Fatal(err)
		}
		return s
	case *ast.BinaryExpr:
		return evaluate(tb, texts, e.X) + evaluate(tb, texts, e.Y)
	case *ast.ParenExpr:
		return evaluate(tb, texts, e.X)
	case *ast.Ident:
		return evaluate(tb, texts, texts[e.Name])
	default:
		tb.Fatalf("a statement is not put together from literals: %T", e)
		return ""
	}
}

// PrepareAll prepares every statement of a folder on every engine, after the owners'
// migrations. fill may rewrite a statement's own placeholders first (nil: as it is).
func PrepareAll(t *testing.T, dir string, owners []sqldb.Migrations, fill func(sqldb.Statement) sqldb.Statement) {
	t.Helper()
	statements := Statements(t, dir)
	if len(statements) == 0 {
		t.Fatal("no statement found")
	}
	for _, server := range Servers(t) {
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			db := server.Open(t, sqldb.Config{}, owners...)
			for name, s := range statements {
				if fill != nil {
					s = fill(s)
				}
				args, err := db.Dialect().Places(s)
				if err == nil {
					err = db.Prepare(t.Context(), s, args...)
				}
				if err != nil {
					t.Errorf("%s: %v\n%s", name, err, s)
				}
			}
		})
	}
}
