package removal_test

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/removal"
)

// Each delete, plain or recursive, is one line with its outcome.
func TestOneLineADelete(t *testing.T) {
	t.Parallel()
	outcome := regexp.MustCompile(`msg=delete outcome=(\w+).* path=(\S+)`)
	for name, want := range map[string][]string{
		"trash":    {"not_empty /d", "error /none", "ok /d/f", "ok /d/g", "ok /d/e", "ok /d"},
		"no trash": {"not_empty /d", "error /none", "ok /d/f", "ok /d/g", "ok /d/e", "ok /d"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, removal.Config{}, func(t *testing.T, w *world) {
				ctx := t.Context()
				var log bytes.Buffer
				m := w.with(func(c *removal.Config) {
					c.Logger = slog.New(slog.NewTextHandler(&log, nil))
					if name == "trash" {
						c.TrashRetention = time.Hour
					}
				})
				d := w.over(m, nil)
				w.put("/d/f", "/d/g", "/d/h")
				w.mkdir("/d/e")
				for _, path := range []string{"/d", "/none", "/d/f"} {
					_, _ = d.Remove(ctx, w.fs, path, drive.RemoveOptions{Actor: "ann", RequestID: "r-1"})
				}
				for _, path := range []string{"/d/g", "/d/e", "/d"} {
					_, err := d.RemoveAll(ctx, w.fs, path, drive.RemoveAllOptions{Actor: "ann", RequestID: "r-1"})
					must(t, err)
				}
				var got []string
				for line := range strings.Lines(log.String()) {
					if m := outcome.FindStringSubmatch(line); m != nil {
						got = append(got, m[1]+" "+m[2])
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s\n%s", diff, &log)
				}
				w.check()
			})
		})
	}
}
