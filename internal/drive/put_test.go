package drive_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/fault"
)

func TestPut(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		ctx := t.Context()
		long := strings.Repeat("long ", 100)
		sum := sha256.Sum256([]byte("text"))
		first := r.put(t, "/made/on/the/way/file", "first")
		if first.Mode != 0o644 || first.Revision != 1 || first.NLink != 1 || first.Kind != drive.File || first.Size != 5 {
			t.Errorf("a new file: %+v", first)
		}
		if seen, err := r.Stat(ctx, one, "/made/on/the/way/file", false); err != nil || seen.ETag() != first.ETag() || !seen.Modified.Equal(first.Modified) {
			t.Errorf("stat after put: %+v, %v", seen, err)
		}
		if _, err := r.Link(ctx, one, "/made/on/the/way/file", "/hard", drive.Change{}); err != nil {
			t.Fatal(err)
		}
		r.symlink(t, "/soft", "made/on/the/way/file")
		r.symlink(t, "/dangling", "/born/by/a/link")
		r.mkdir(t, "/dir")
		for _, c := range []struct {
			name, path string
			opts       drive.PutOptions
			want       string
		}{
			{"inline", "/a", drive.PutOptions{Body: strings.NewReader("a"), Size: 1}, "created"},
			{"empty", "/empty", drive.PutOptions{Body: strings.NewReader(""), Size: 0}, "created"},
			{"in the bucket", "/b", drive.PutOptions{Body: strings.NewReader(long), Size: int64(len(long))}, "created"},
			{"of unknown size", "/c", drive.PutOptions{Body: iotest.OneByteReader(strings.NewReader(long)), Size: -1}, "created"},
			{"again", "/a", drive.PutOptions{Body: strings.NewReader(long), Size: -1}, "replaced"},
			{"the right checksum", "/sum", drive.PutOptions{Body: strings.NewReader("text"), Size: 4, SHA256: hex.EncodeToString(sum[:])}, "created"},
			{"a wrong checksum", "/wrong", drive.PutOptions{Body: strings.NewReader("text"), Size: 4, SHA256: strings.Repeat("0", 64)}, "ChecksumMismatch"},
			{"too short", "/short", drive.PutOptions{Body: strings.NewReader("text"), Size: 5}, "SizeMismatch"},
			{"too long", "/short", drive.PutOptions{Body: strings.NewReader("text"), Size: 3}, "SizeMismatch"},
			{"a broken body", "/broken", drive.PutOptions{Body: iotest.ErrReader(io.ErrUnexpectedEOF), Size: -1}, "BrokenBody"},
			{"only if new, and it is", "/new", drive.PutOptions{Body: strings.NewReader("x"), Size: 1, IfNoneMatchAny: true}, "created"},
			{"only if new, and it is not", "/new", drive.PutOptions{Body: strings.NewReader("y"), Size: 1, IfNoneMatchAny: true}, "PreconditionFailed"},
			{"if it matches, and it does", "/hard", drive.PutOptions{Body: strings.NewReader("second"), Size: 6, IfMatch: `"0-0", ` + first.ETag()}, "replaced"},
			{"if it matches, and no longer", "/hard", drive.PutOptions{Body: strings.NewReader("third"), Size: 5, IfMatch: first.ETag()}, "PreconditionFailed"},
			{"if it matches weakly", "/a", drive.PutOptions{Body: strings.NewReader("x"), Size: 1, IfMatch: "W/" + first.ETag()}, "PreconditionFailed"},
			{"if it is there, and is not", "/none", drive.PutOptions{Body: strings.NewReader("x"), Size: 1, IfMatch: "*"}, "PreconditionFailed"},
			{"through a link", "/soft", drive.PutOptions{Body: strings.NewReader("by a link"), Size: 9}, "replaced"},
			{"to where a link leads", "/dangling", drive.PutOptions{Body: strings.NewReader("born"), Size: 4}, "created"},
			{"onto a directory", "/dir", drive.PutOptions{Body: strings.NewReader("x"), Size: 1}, "IsDirectory"},
			{"onto the root", "/", drive.PutOptions{Body: strings.NewReader("x"), Size: 1}, "IsDirectory"},
			{"below a file", "/a/b/c", drive.PutOptions{Body: strings.NewReader("x"), Size: 1}, "NotDirectory"},
			{"no path", "/a\x00", drive.PutOptions{Body: strings.NewReader("x"), Size: 1}, "InvalidPath"},
		} {
			_, created, err := r.Put(ctx, one, c.path, c.opts)
			got := "replaced"
			if created {
				got = "created"
			}
			if err != nil {
				got = code(err)
			}
			if got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
		for path, want := range map[string]string{
			"/a": long, "/b": long, "/c": long, "/empty": "", "/sum": "text", "/new": "x", "/born/by/a/link": "born",
			"/hard": "by a link", "/made/on/the/way/file": "by a link", "/wrong": "NotFound", "/broken": "NotFound", "/short": "NotFound",
		} {
			if got := r.read(t, path); got != want {
				t.Errorf("%s reads %.30q, want %.30q", path, got, want)
			}
		}
		now, err := r.Stat(ctx, one, "/hard", false)
		if err != nil || now.Inode != first.Inode || now.Revision != 3 || now.NLink != 2 {
			t.Errorf("an overwritten file keeps its identity: %+v, %v", now, err)
		}
		if dir, err := r.Stat(ctx, one, "/made/on", false); err != nil || dir.Kind != drive.Directory || dir.Mode != 0o755 {
			t.Errorf("a directory made on the way: %+v, %v", dir, err)
		}
	})
}

func TestAppend(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		ctx := t.Context()
		e := r.put(t, "/log", "one ")
		add := func(text, ifMatch string) error {
			_, err := r.Append(ctx, one, "/log", drive.AppendOptions{Body: strings.NewReader(text), Size: int64(len(text)), IfMatch: ifMatch})
			return err
		}
		long := strings.Repeat("x", 100_000)
		for _, c := range []struct{ text, ifMatch, want string }{
			{"two ", "", "ok"},
			{"three ", e.ETag(), "PreconditionFailed"},
			{"", "", "ok"},
			{long, "", "ok"},
		} {
			if err := add(c.text, c.ifMatch); code(err) != c.want {
				t.Errorf("append %.10q: %v, want %s", c.text, err, c.want)
			}
		}
		if got := r.read(t, "/log"); got != "one two "+long {
			t.Errorf("the log is %d bytes: %.20q", len(got), got)
		}
		if _, err := r.Append(ctx, one, "/none", drive.AppendOptions{Body: strings.NewReader("x"), Size: 1}); code(err) != "NotFound" {
			t.Errorf("append to nothing: %v", err)
		}
		if _, err := r.Append(ctx, one, "/log", drive.AppendOptions{Body: strings.NewReader("x"), Size: 2}); code(err) != "SizeMismatch" {
			t.Errorf("append of fewer bytes than announced: %v", err)
		}
		// Somebody writes in between: a short body is tried again, a long one is refused.
		interfere := func(times int) {
			r.steps.set(func(op, point string) error {
				if op == "drive.Append" && point == "resolved" && times > 0 {
					times--
					r.put(t, "/log", "new ")
				}
				return nil
			})
		}
		interfere(2)
		if err := add("short", ""); err != nil || r.read(t, "/log") != "new short" {
			t.Errorf("a short append beside a write: %v, %q", err, r.read(t, "/log"))
		}
		interfere(1)
		if err := add(long, ""); code(err) != "ConcurrentChange" || r.read(t, "/log") != "new " {
			t.Errorf("a long append beside a write: %v", err)
		}
		interfere(1)
		now, _ := r.Stat(ctx, one, "/log", true)
		if err := add("short", now.ETag()); code(err) != "PreconditionFailed" {
			t.Errorf("a conditional append beside a write: %v", err)
		}
		r.steps.set(nil)
	})
}

func TestQuota(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		ctx := t.Context()
		if err := r.SetQuota(ctx, one, 100, 3); err != nil {
			t.Fatal(err)
		}
		if err := r.SetQuota(ctx, one, -1, 0); fault.KindOf(err) != fault.Invalid {
			t.Errorf("a negative quota: %v", err)
		}
		put := func(path string, n int, known bool) string {
			size := int64(-1)
			if known {
				size = int64(n)
			}
			_, _, err := r.Put(ctx, one, path, drive.PutOptions{Body: strings.NewReader(strings.Repeat("x", n)), Size: size})
			if code(err) == "QuotaExceeded" && fault.KindOf(err) != fault.Full {
				t.Errorf("a quota is of kind %s", fault.KindOf(err))
			}
			return code(err)
		}
		for _, c := range []struct {
			name, got, want string
		}{
			{"fits", put("/a", 60, true), "ok"},
			{"does not, announced", put("/b", 41, true), "QuotaExceeded"},
			{"does not, unannounced", put("/b", 41, false), "QuotaExceeded"},
			{"overwriting by less", put("/a", 50, true), "ok"},
			{"overwriting by too much", put("/a", 101, false), "QuotaExceeded"},
			{"an endless body", code(errOf(r.Put(ctx, one, "/b", drive.PutOptions{Body: endless{}, Size: -1}))), "QuotaExceeded"},
			{"an endless append", code(errOf2(r.Append(ctx, one, "/a", drive.AppendOptions{Body: endless{}, Size: -1}))), "QuotaExceeded"},
			{"a copy that fits just so", code(errOf(r.Copy(ctx, one, "/a", "/copy", drive.CopyOptions{NoReplace: true}))), "ok"},
			{"one byte more", put("/c", 1, true), "QuotaExceeded"},
			{"nothing more", put("/c", 0, true), "ok"},
			{"a fourth file", put("/d", 0, true), "QuotaExceeded"},
			{"a link is a file too", code(errOf2(r.Symlink(ctx, one, "/s", "x", drive.Change{}))), "QuotaExceeded"},
			{"a directory is none", code(errOf(r.Mkdir(ctx, one, "/dir", drive.MkdirOptions{}))), "ok"},
			{"a hard link is none", code(errOf2(r.Link(ctx, one, "/a", "/hard", drive.Change{}))), "ok"},
			{"an upload reserves", code(errOf2(r.InitiateUpload(ctx, one, "/up", drive.UploadOptions{Size: 1}))), "QuotaExceeded"},
		} {
			if c.got != c.want {
				t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
			}
		}
		u, err := r.Usage(ctx, one)
		if want := (drive.Usage{Bytes: 100, Files: 3, QuotaBytes: 100, QuotaFiles: 3}); err != nil || u != want {
			t.Errorf("usage %+v, %v, want %+v", u, err, want)
		}
		if u, err := r.Usage(ctx, two); err != nil || u != (drive.Usage{}) {
			t.Errorf("another tenant's usage: %+v, %v", u, err)
		}
	})
}

// endless is a body that does not end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func errOf(_ drive.Entry, _ bool, err error) error { return err }

func errOf2[T any](_ T, err error) error { return err }

// A write that fails, at whichever point, leaves nothing visible and nothing that the
// collector does not know.
func TestPutFailsAtEveryPoint(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken by the test")
	each(t, func(t *testing.T, r *room) {
		text := strings.Repeat("long enough for the bucket ", 3)
		r.put(t, "/old", "old")
		for _, path := range []string{"/new/file", "/old"} {
			for n, done := 0, false; !done; n++ {
				seen := 0
				r.steps.set(func(string, string) error {
					if seen++; seen > n {
						return broken
					}
					return nil
				})
				_, _, err := r.Put(context.WithoutCancel(t.Context()), one, path, drive.PutOptions{Body: strings.NewReader(text), Size: -1})
				r.steps.set(nil)
				if done = err == nil; done {
					if n < 5 {
						t.Errorf("%s has %d points", path, n)
					}
					break
				}
				if !errors.Is(err, broken) {
					t.Fatalf("%s at point %d: %v", path, n, err)
				}
				if got := r.read(t, path); got != "NotFound" && got != "old" {
					t.Errorf("%s at point %d reads %q", path, n, got)
				}
				r.agree(t)
			}
			if got := r.read(t, path); got != text {
				t.Errorf("%s reads %q", path, got)
			}
		}
	})
}
