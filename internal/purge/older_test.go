package purge_test

import (
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// Which older metadata files are the table's: their logs are followed, and what they
// claim becomes the table's own.
func TestOlderMetadataOfTheTable(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	other := func(string) string { return "ffffffff-0000-4000-8000-000000000000" }
	same := func(id string) string { return id }
	tests := map[string]struct {
		root, older func(id string) string // uuids
		away        bool                   // older metadata lies outside of the table's location
		followed    bool                   // whoever's log names it, an old file goes
		adopted     bool
	}{
		"the same uuid":                          {root: same, older: same, followed: true, adopted: true},
		"the same uuid in capitals":              {root: same, older: strings.ToUpper, followed: true, adopted: true},
		"capitals in the root":                   {root: strings.ToUpper, older: same, followed: true, adopted: true},
		"the root got its uuid later":            {root: same, older: none, followed: true},
		"the root got its uuid later, elsewhere": {root: same, older: none, away: true},
		"never a uuid":                           {root: none, older: none, followed: true, adopted: true},
		"never a uuid, elsewhere":                {root: none, older: none, away: true},
		"another uuid":                           {root: same, older: other},
		"another uuid, none in the root":         {root: none, older: other},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			const home = "mem://wh/root/t"
			at := home
			if tt.away {
				at = "mem://wh/root/before"
			}
			metadata := func(name, id, claims string, log ...string) string {
				w.write(name, `{"format-version":1,"location":"`+claims+`","table-uuid":"`+id+`","snapshots":[],"metadata-log":[`+entries(log)+`],`+
					`"statistics":[{"statistics-path":"mem://wh/root/claimed/stats"}]}`)
				return name
			}
			id := "abcdefab-0000-4000-8000-0123456789ab"
			w.write("mem://wh/root/claimed/stats", "x")
			oldest := metadata(home+"/metadata/0.metadata.json", tt.older(id), "mem://wh/root/claimed")
			middle := metadata(at+"/metadata/1.metadata.json", tt.older(id), "mem://wh/root/claimed", oldest)
			newest := metadata(home+"/metadata/2.metadata.json", tt.root(id), home, middle)
			r := w.job(purgetest.Table{Location: home, Metadata: newest})
			if err := w.run(r, purge.Config{}); err != nil {
				t.Fatal(err)
			}
			tree := w.tree()
			if _, there := tree[oldest]; there == tt.followed {
				t.Errorf("followed: %v, want %v", !there, tt.followed)
			}
			if _, there := tree["mem://wh/root/claimed/stats"]; there == tt.adopted {
				t.Errorf("adopted: %v, want %v", !there, tt.adopted)
			}
			if _, there := tree[newest]; there {
				t.Error("the root is left")
			}
		})
	}
}

func entries(log []string) string {
	var out []string
	for _, file := range log {
		out = append(out, `{"metadata-file":"`+file+`"}`)
	}
	return strings.Join(out, ",")
}
