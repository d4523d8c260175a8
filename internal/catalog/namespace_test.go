package catalog_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/fault"
)

func TestNamespaces(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		ab, a := b.namespace("a.b"), b.namespace("a")
		sub := b.namespace("a", "b")
		odd := b.namespace("a", "b", "ü/ö %+\"\\_'")
		b.wantCode(b.cat.CreateNamespace(ctx, b.call(), a, nil), fault.Conflict, catalog.CodeAlreadyExists)
		b.wantCode(b.cat.CreateNamespace(ctx, b.call(), catalog.Namespace{"x", "y"}, nil), fault.NotFound, catalog.CodeNoSuchNamespace)
		for name, n := range map[string]catalog.Namespace{"none": {}, "empty level": {"a", ""}, "NUL": {"a\x00"}, "not UTF-8": {"\xff"}} {
			if err := b.cat.CreateNamespace(ctx, b.call(), n, nil); fault.KindOf(err) != fault.Invalid {
				b.t.Errorf("%s: %v, want Invalid", name, err)
			}
		}
		top, _, err := b.cat.ListNamespaces(ctx, b.call(), nil, catalog.Page{})
		b.must(err)
		if diff := cmp.Diff([]catalog.Namespace{a, ab}, top); diff != "" {
			b.t.Errorf("top (-want +got):\n%s", diff)
		}
		below, _, err := b.cat.ListNamespaces(ctx, b.call(), sub, catalog.Page{})
		b.must(err)
		if diff := cmp.Diff([]catalog.Namespace{odd}, below); diff != "" {
			b.t.Errorf("below (-want +got):\n%s", diff)
		}
		b.wantCode(b.cat.DropNamespace(ctx, b.call(), sub), fault.Conflict, catalog.CodeNamespaceNotEmpty)
		b.must(b.cat.DropNamespace(ctx, b.call(), odd))
		b.must(b.cat.DropNamespace(ctx, b.call(), sub))
		b.wantCode(b.cat.NamespaceExists(ctx, b.call(), sub), fault.NotFound, catalog.CodeNoSuchNamespace)
		b.must(b.cat.NamespaceExists(ctx, b.call(), ab))
	})
}

func TestNamespaceProperties(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		n := b.namespace("n")
		changes, err := b.cat.UpdateProperties(ctx, b.call(), n, []string{"gone"}, map[string]string{"k": "v", "a": "1"})
		b.must(err)
		want := catalog.Changes{Updated: []string{"a", "k"}, Removed: []string{}, Missing: []string{"gone"}}
		if diff := cmp.Diff(want, changes); diff != "" {
			b.t.Errorf("changes (-want +got):\n%s", diff)
		}
		_, err = b.cat.UpdateProperties(ctx, b.call(), n, []string{"k"}, map[string]string{"k": "2"})
		b.wantCode(err, fault.Unprocessable, catalog.CodeUnprocessable)
		_, err = b.cat.UpdateProperties(ctx, b.call(), n, []string{"k"}, nil)
		b.must(err)
		got, err := b.cat.NamespaceProperties(ctx, b.call(), n)
		b.must(err)
		if diff := cmp.Diff(map[string]string{"a": "1", "location": rootURI + "/n"}, got); diff != "" {
			b.t.Errorf("properties (-want +got):\n%s", diff)
		}
	})
}

// A namespace's location moves the default place of its tables, and never into a table.
func TestNamespaceLocation(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		n := b.namespace("n")
		b.create(ident(n, "t"), `"location":"`+rootURI+`/special"`)
		_, err := b.cat.UpdateProperties(ctx, b.call(), n, nil, map[string]string{"location": rootURI + "/special/inside"})
		b.wantCode(err, fault.Conflict, catalog.CodeLocationTaken)
		_, err = b.cat.UpdateProperties(ctx, b.call(), n, nil, map[string]string{"location": "s3://elsewhere/x"})
		b.wantCode(err, fault.Invalid, catalog.CodeBadLocation)
		_, err = b.cat.UpdateProperties(ctx, b.call(), n, nil, map[string]string{"location": rootURI + "/moved"})
		b.must(err)
		loaded := b.create(ident(n, "u"))
		want := fmt.Sprintf("%s/moved/u-%s", rootURI, loaded.Table.UUID())
		if loaded.Table.Location() != want {
			b.t.Errorf("location %s, want %s", loaded.Table.Location(), want)
		}
		// The default parent of a namespace called like a table's place goes elsewhere.
		b.create(ident(n, "v"), `"location":"`+rootURI+`/taken"`)
		inside := b.create(ident(b.namespace("taken"), "w"))
		if got := inside.Table.Location(); len(got) < len(rootURI) || got[:len(rootURI)+4] != rootURI+"/ns-" {
			b.t.Errorf("location %s, want it below %s/ns-…", got, rootURI)
		}
		b.invariants()
	})
}

func TestListPages(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		n := b.namespace("n")
		var want []string
		for i := range 7 {
			name := fmt.Sprintf("t%d", i)
			b.create(ident(n, name))
			want = append(want, name)
		}
		all, next, err := b.cat.ListTables(ctx, b.call(), n, catalog.Page{})
		b.must(err)
		if next.After != "" || !cmp.Equal(all, want) {
			b.t.Fatalf("all: %v, next %q", all, next.After)
		}
		var paged []string
		for page := (catalog.Page{Limit: 3}); ; {
			names, next, err := b.cat.ListTables(ctx, b.call(), n, page)
			b.must(err)
			paged = append(paged, names...)
			if next.After == "" {
				break
			}
			page = next
		}
		if diff := cmp.Diff(want, paged); diff != "" {
			b.t.Errorf("paged (-want +got):\n%s", diff)
		}
	})
}
