package client_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lethe-project/lethe/client"
)

func TestNames(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want client.Namespace // nil: refused
	}{
		{"a", client.Namespace{"a"}},
		{"a.b.c", client.Namespace{"a", "b", "c"}},
		{`a\.b.c`, client.Namespace{"a.b", "c"}},
		{`a\\.b`, client.Namespace{`a\`, "b"}},
		{`x\u{1f}y`, client.Namespace{"x\x1fy"}},
		{"größe.tab le/+%", client.Namespace{"größe", "tab le/+%"}},
		{"", nil},
		{".", nil},
		{"a..b", nil},
		{"a.", nil},
		{`a\`, nil},
		{`a\b`, nil},
		{`a\u{110000}`, nil},
		{`a\u{d800}`, nil},
		{`a\u{20`, nil},
		{"a\xff", nil},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			got, err := client.ParseNamespace(tt.text)
			if (err != nil) != (tt.want == nil) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("levels (-want +got):\n%s", diff)
			}
			if err == nil && got.String() != tt.text {
				t.Errorf("written again as %q", got)
			}
		})
	}
}

func TestIdentifiers(t *testing.T) {
	t.Parallel()
	id, err := client.ParseIdentifier(`a\.b.c.t\.1`)
	if err != nil {
		t.Fatal(err)
	}
	want := client.Identifier{Namespace: client.Namespace{"a.b", "c"}, Name: "t.1"}
	if diff := cmp.Diff(want, id); diff != "" {
		t.Errorf("identifier (-want +got):\n%s", diff)
	}
	if _, err := client.ParseIdentifier("t"); err == nil {
		t.Error("a table without a namespace was accepted")
	}
}

func TestNamesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		levels := client.Namespace(rapid.SliceOfN(rapid.StringMatching(`[\x00-\x7fäß\x{200b}\x{1f600}\\.]{1,8}`), 1, 4).Draw(t, "levels"))
		got, err := client.ParseNamespace(levels.String())
		if err != nil {
			t.Fatalf("%q: %v", levels, err)
		}
		if diff := cmp.Diff(levels, got); diff != "" {
			t.Fatalf("levels (-want +got):\n%s", diff)
		}
	})
}

func FuzzParseNamespace(f *testing.F) {
	for _, seed := range []string{"a.b", `a\.b`, `\u{1f}`, `\\`, "ü."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ns, err := client.ParseNamespace(text)
		if err != nil {
			return
		}
		again, err := client.ParseNamespace(ns.String())
		if err != nil || !cmp.Equal(ns, again) {
			t.Errorf("%q: %q became %q, %v", text, ns, again, err)
		}
	})
}
