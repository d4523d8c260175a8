package purge_test

import (
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// Whatever spelling of a higher level's file the table names as data, statistics or
// older metadata: it goes with its own level.
func TestHigherLevelsFilesBySpelling(t *testing.T) {
	t.Parallel()
	spellings := map[string]func(uri string) string{
		"as it is":       func(uri string) string { return uri },
		"one slash":      func(uri string) string { return "file:" + strings.TrimPrefix(uri, "file://") },
		"localhost":      func(uri string) string { return "file://localhost" + strings.TrimPrefix(uri, "file://") },
		"a plain path":   func(uri string) string { return strings.TrimPrefix(uri, "file://") },
		"doubled slash":  func(uri string) string { return strings.Replace(uri, "/t/", "/t//", 1) },
		"dot":            func(uri string) string { return strings.Replace(uri, "/t/", "/t/./", 1) },
		"up and down":    func(uri string) string { return strings.Replace(uri, "/t/", "/t/x/../", 1) },
		"capital scheme": func(uri string) string { return "FILE" + strings.TrimPrefix(uri, "file") },
	}
	for name, spell := range spellings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLocalWorld(t)
			b := w.builder("t", purgetest.Options{}).Append(2)
			list := w.table(b).Lists[0]
			final := w.root() + "/t/metadata/99999-final.metadata.json"
			b.Name(spell(final), spell(list))
			table := w.table(b)
			w.write(final, naming(w.tree()[table.Metadata], spell(final)))
			r := w.job(table)
			r.MetadataLocation = final
			goes := map[string]purge.Level{list: purge.Lists, final: purge.Root}
			cfg := purge.Config{Step: func(l purge.Level, step string) {
				if step != purge.StepSettled {
					return
				}
				tree := w.tree()
				for uri, level := range goes {
					if _, there := tree[uri]; there != (l < level) {
						t.Errorf("after level %s: %s there: %v", l, uri, there)
					}
				}
			}}
			if err := w.run(r, cfg); err != nil {
				t.Fatal(err)
			}
			if left := keys(w.tree()); len(left) != 1 || left[0] != table.Metadata { // nothing names it
				t.Errorf("left: %v", left)
			}
		})
	}
}

// naming returns root metadata that names uri in its log and as a statistics file.
func naming(metadata, uri string) string {
	metadata = strings.Replace(metadata, `"metadata-log":[`, `"metadata-log":[{"timestamp-ms":1,"metadata-file":"`+uri+`"},`, 1)
	return strings.Replace(metadata, `"statistics":null`, `"statistics":[{"snapshot-id":1,"statistics-path":"`+uri+`"}]`, 1)
}

// In an object store a key that cleans to the root's is another object: it goes, the
// root goes last.
func TestOtherKeysThanTheRoots(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]string{"doubled slash": "/t//metadata/", "dot": "/t/./metadata/"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := w.builder("t", purgetest.Options{}).Append(2)
			final := w.root() + "/t/metadata/final.metadata.json"
			twin := strings.Replace(final, "/t/metadata/", other, 1)
			w.write(twin, "x")
			b.Name(twin)
			table := w.table(b)
			w.write(final, w.tree()[table.Metadata])
			r := w.job(table)
			r.MetadataLocation = final
			cfg := purge.Config{Step: func(l purge.Level, step string) {
				_, root := w.tree()[final]
				_, data := w.tree()[twin]
				if l == purge.Data && step == purge.StepSettled && (!root || data) {
					t.Errorf("after DATA: the root is there: %v, the data file: %v", root, data)
				}
			}}
			if err := w.run(r, cfg); err != nil {
				t.Fatal(err)
			}
			if left := keys(w.tree()); len(left) != 1 || left[0] != table.Metadata {
				t.Errorf("left: %v", left)
			}
		})
	}
}
