package files_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/job"
)

type inTrash struct {
	ID, Path, State string
	Size            *int64
	Until           *time.Time
}

// trash is what the caller sees of it, by path.
func (b *bench) trash() map[string]inTrash {
	b.tb.Helper()
	all := map[string]inTrash{}
	for cursor := ""; ; {
		var page struct {
			Trash      []inTrash
			NextCursor *string
		}
		b.do("GET", "/v1/trash?limit=2"+cursor, "").want(200).decode(&page)
		for _, t := range page.Trash {
			all[t.Path] = t
		}
		if page.NextCursor == nil {
			return all
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

// TestTrashSizes tells the sizes of files, in the answer to the delete and in the list.
func TestTrashSizes(t *testing.T) {
	t.Parallel()
	b := open(t, options{trash: time.Hour})
	for path, body := range map[string]string{"/a": "12345", "/b": "123", "/none": "", "/d/x": "1234567"} {
		b.put(path, body)
	}
	got := map[string]int64{}
	for path, query := range map[string]string{"/a": "", "/b": "?recursive=true", "/none": "", "/d": "?recursive=true"} {
		var res struct{ Files, Bytes int64 }
		b.do("DELETE", "/v1/fs"+path+query, "").decode(&res)
		got[path] = res.Bytes
	}
	if diff := cmp.Diff(map[string]int64{"/a": 5, "/b": 3, "/none": 0, "/d": 0}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	got = map[string]int64{}
	for path, item := range b.trash() {
		got[path] = -1
		if item.Size != nil {
			got[path] = *item.Size
		}
	}
	if diff := cmp.Diff(map[string]int64{"/a": 5, "/b": 3, "/none": 0, "/d": -1}, got); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
}

// TestEmptyByScope empties what a token covers, and what is paused too; the rest stays.
func TestEmptyByScope(t *testing.T) {
	t.Parallel()
	b := open(t, options{trash: time.Hour})
	for _, path := range []string{"/mine/a", "/mine/d/x", "/mine2", "/theirs/b"} {
		b.put(path, "x")
	}
	for _, path := range []string{"/mine/a", "/mine/d", "/mine2", "/theirs"} {
		b.do("DELETE", "/v1/fs"+path+"?recursive=true", "")
	}
	pause := func(path string) {
		id, _ := b.removal.Jobs().ParseName(b.trash()[path].ID)
		if _, err := b.removal.Jobs().Pause(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	pause("/mine/d")
	pause("/theirs")
	var res struct{ Emptied int }
	b.by("reader").do("DELETE", "/v1/trash", "").want(202).decode(&res)
	if res.Emptied != 0 {
		t.Errorf("a reader emptied %d", res.Emptied)
	}
	b.by("scoped").do("DELETE", "/v1/trash", "").want(202).decode(&res)
	if res.Emptied != 2 {
		t.Errorf("emptied %d", res.Emptied)
	}
	b.await(func() bool { return len(b.by("scoped").trash()) == 0 })
	left := b.trash()
	for _, path := range []string{"/mine2", "/theirs"} {
		if item := left[path]; item.State != string(job.Pending) || item.Until == nil || time.Until(*item.Until) < time.Minute {
			t.Errorf("%s stands as %+v", path, item)
		}
	}
	if len(left) != 2 {
		t.Errorf("left are %+v", left)
	}
	b.do("DELETE", "/v1/trash/"+left["/theirs"].ID, "").want(202)
	b.await(func() bool { return len(b.trash()) == 1 })
}

// await waits until something holds.
func (b *bench) await(ok func() bool) {
	b.tb.Helper()
	for !ok() {
		select {
		case <-b.tb.Context().Done():
			b.tb.Fatal("not in time")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
