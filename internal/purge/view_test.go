package purge_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/purge"
)

// view writes three metadata files of a view and returns its job.
func (w *world) view(properties string) (*row, []string) {
	w.t.Helper()
	location := w.root() + "/v"
	files := make([]string, 3)
	for i := range files {
		files[i] = fmt.Sprintf("%s/metadata/%05d.metadata.json", location, i)
		w.write(files[i], fmt.Sprintf(`{"view-uuid":"u","format-version":1,"location":%q,"versions":[],"properties":%s}`, location, properties))
	}
	l, err := blob.ParseLocation(location)
	if err != nil {
		w.t.Fatal(err)
	}
	w.own = append(w.own, l)
	return &row{Job: purge.Job{ID: 1, Type: purge.View, UUID: "u", TableLocation: location, MetadataLocation: files[2], Files: files}}, files
}

func TestPurgeOfAView(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(w.root()+"/v2/metadata/00000.metadata.json", "a sibling")
	w.write(w.root()+"/elsewhere.json", "not the view's")
	r, files := w.view(`{}`)
	r.Files = append(r.Files, w.root()+"/elsewhere.json")
	before := w.tree()
	if err := w.run(r, purge.Config{}); err != nil {
		t.Fatal(err)
	}
	w.want(before, files)
	if p := r.progress; p.Files != 3 || !cmp.Equal(p.Skipped, map[purge.Reason]int64{purge.Outside: 1}) {
		t.Errorf("progress %+v", p)
	}
}

func TestPurgeOfAViewKeepsWhatGCDisabledSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, _ := w.view(`{"gc.enabled":"false"}`)
	before := w.tree()
	if err := w.run(r, purge.Config{}); err != nil {
		t.Fatal(err)
	}
	w.want(before)
	if p := r.progress; p.Files != 0 || p.Skipped[purge.GCDisabled] != 3 || p.Leftovers != 0 {
		t.Errorf("progress %+v", p)
	}
}

// A crash at any step of a view's purge is finished by the next run, the root last.
func TestCrashInThePurgeOfAView(t *testing.T) {
	t.Parallel()
	for _, step := range steps() {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r, files := w.view(`{}`)
			before := w.tree()
			crashAt(w, r, purge.Config{}, step, 0)
			if _, there := w.tree()[files[2]]; !there && len(w.tree()) > 0 {
				t.Error("the root went before the rest")
			}
			finish(w, r, purge.Config{})
			w.want(before, files)
		})
	}
}
