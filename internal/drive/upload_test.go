package drive_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive"
)

func (r *room) begin(t *testing.T, path string, size int64) string {
	t.Helper()
	u, err := r.InitiateUpload(t.Context(), one, path, drive.UploadOptions{Size: size, Actor: "ann"})
	if err != nil {
		t.Fatalf("initiate %s: %v", path, err)
	}
	return u.ID
}

func (r *room) part(t *testing.T, id string, number int, text string) {
	t.Helper()
	if _, err := r.PutPart(t.Context(), one, id, number, drive.PartOptions{Body: strings.NewReader(text), Size: int64(len(text))}); err != nil {
		t.Fatalf("part %d: %v", number, err)
	}
}

func (r *room) reserved(t *testing.T) int64 {
	t.Helper()
	u, err := r.Usage(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	return u.Reserved
}

func TestUpload(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		ctx := t.Context()
		r.mkdir(t, "/dir")
		old := r.put(t, "/old", "old bytes")
		if _, err := r.Link(ctx, one, "/old", "/hard", drive.Change{}); err != nil {
			t.Fatal(err)
		}
		id := r.begin(t, "/dir/new/file", 12)
		if got := r.reserved(t); got != 12 {
			t.Errorf("reserved %d", got)
		}
		for _, p := range []struct {
			number int
			text   string
		}{{2, "second"}, {1, "wrong"}, {1, "first "}} { // out of order, and one again
			r.part(t, id, p.number, p.text)
		}
		u, err := r.Upload(ctx, one, id)
		sum := func(text string) string {
			h := sha256.Sum256([]byte(text))
			return hex.EncodeToString(h[:])
		}
		parts := []drive.Part{{Number: 1, Size: 6, SHA256: sum("first ")}, {Number: 2, Size: 6, SHA256: sum("second")}}
		if diff := cmp.Diff(parts, u.Parts); err != nil || diff != "" || u.State != "OPEN" || u.Path != "/dir/new/file" || u.Actor != "ann" {
			t.Errorf("the upload: %+v, %v\n%s", u, err, diff)
		}
		if _, err := r.Upload(ctx, two, id); code(err) != "NoSuchUpload" {
			t.Errorf("another tenant sees it: %v", err)
		}
		list, err := r.Uploads(ctx, one, "", 10)
		if err != nil || len(list) != 1 || list[0].ID != id {
			t.Errorf("open uploads: %+v, %v", list, err)
		}
		for name, c := range map[string]struct {
			opts drive.CompleteOptions
			want string
		}{
			"another checksum of the whole": {drive.CompleteOptions{SHA256: sum("x")}, "ChecksumMismatch"},
			"another checksum of a part":    {drive.CompleteOptions{Parts: []drive.Part{{Number: 1, SHA256: sum("wrong")}}}, "InvalidPart"},
			"a part that did not arrive":    {drive.CompleteOptions{Parts: []drive.Part{{Number: 3}}}, "InvalidPart"},
			"a condition":                   {drive.CompleteOptions{IfMatch: "*"}, "PreconditionFailed"},
		} {
			if _, _, err := r.CompleteUpload(ctx, one, id, c.opts); code(err) != c.want {
				t.Errorf("complete with %s: %v, want %s", name, err, c.want)
			}
		}
		e, created, err := r.CompleteUpload(ctx, one, id, drive.CompleteOptions{Parts: parts, SHA256: sum("first second"), IfNoneMatchAny: true})
		if err != nil || !created || e.Path != "/dir/new/file" || e.Size != 12 {
			t.Errorf("complete: %+v, %t, %v", e, created, err)
		}
		if got := r.read(t, "/dir/new/file"); got != "first second" {
			t.Errorf("the file reads %q", got)
		}
		if _, _, err := r.CompleteUpload(ctx, one, id, drive.CompleteOptions{}); code(err) != "UploadCompleted" {
			t.Errorf("completed twice: %v", err)
		}
		// Onto a file that is there: its names stay, as with Put.
		id = r.begin(t, "/old", 0)
		r.part(t, id, 1, "uploaded over it")
		if e, created, err := r.CompleteUpload(ctx, one, id, drive.CompleteOptions{IfMatch: old.ETag()}); err != nil || created || e.Inode != old.Inode {
			t.Errorf("complete onto a file: %+v, %t, %v", e, created, err)
		}
		if got := r.read(t, "/hard"); got != "uploaded over it" {
			t.Errorf("the other name reads %q", got)
		}
		id = r.begin(t, "/aborted", 100)
		r.part(t, id, 1, "x")
		for range 2 { // twice is once
			if err := r.AbortUpload(ctx, one, id); err != nil {
				t.Errorf("abort: %v", err)
			}
		}
		if _, _, err := r.CompleteUpload(ctx, one, id, drive.CompleteOptions{}); code(err) != "UploadAborted" {
			t.Errorf("complete of an aborted upload: %v", err)
		}
		if got := r.reserved(t); got != 0 {
			t.Errorf("%d bytes are still reserved", got)
		}
	})
}

// Of two requests to complete one upload the slower learns that it is done, and not that the
// file is there already: it is its own.
func TestCompletedByItsTwin(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		id := r.begin(t, "/file", 5)
		r.part(t, id, 1, "bytes")
		opts := drive.CompleteOptions{IfNoneMatchAny: true}
		var twin error
		first := true
		r.steps.set(func(op, point string) error {
			if first && op == "drive.CompleteUpload" && point == "resolved" {
				first = false
				_, _, twin = r.CompleteUpload(t.Context(), one, id, opts)
			}
			return nil
		})
		_, _, err := r.CompleteUpload(t.Context(), one, id, opts)
		r.steps.set(nil)
		if twin != nil || code(err) != "UploadCompleted" || r.read(t, "/file") != "bytes" {
			t.Errorf("one %v, the other %v", twin, err)
		}
	})
}

// An upload belongs to the directory in which it was begun, wherever that goes.
func TestUploadFollowsItsDirectory(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		ctx := t.Context()
		r.mkdir(t, "/dir")
		id := r.begin(t, "/dir/sub/file", 5)
		r.part(t, id, 1, "bytes")
		if _, err := r.Rename(ctx, one, "/dir", "/moved", drive.RenameOptions{}); err != nil {
			t.Fatal(err)
		}
		r.mkdir(t, "/dir") // another one of that name
		if e, _, err := r.CompleteUpload(ctx, one, id, drive.CompleteOptions{}); err != nil || e.Path != "/moved/sub/file" {
			t.Errorf("after a rename: %+v, %v", e, err)
		}
		for name, remove := range map[string]func() error{
			"rmdir": func() error { _, err := r.Remove(ctx, one, "/dir", drive.RemoveOptions{}); return err },
			"remove all": func() error {
				_, err := r.RemoveAll(ctx, one, "/dir", drive.RemoveAllOptions{})
				return err
			},
		} {
			r.mkdir(t, "/dir")
			id := r.begin(t, "/dir/file", 5)
			r.part(t, id, 1, "bytes")
			if err := remove(); err != nil {
				t.Fatal(err)
			}
			r.mkdir(t, "/dir")
			_, _, err := r.CompleteUpload(ctx, one, id, drive.CompleteOptions{})
			if got := code(err); got != "UploadAborted" && got != "UploadBaseGone" {
				t.Errorf("after %s: %v", name, err)
			}
			if got := r.names(t, "/dir"); got != "" {
				t.Errorf("after %s the new directory has %s", name, got)
			}
		}
		if got := r.reserved(t); got != 0 {
			t.Errorf("%d bytes are still reserved", got)
		}
	})
}
