package drive

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/tree"
)

// maxProblems is how many lines a CheckReport has at most.
const maxProblems = 100

// CheckReport compares the counters of a drive with what is there.
type CheckReport struct {
	Counted     Usage    // recomputed by a walk; its quotas are 0
	Recorded    Usage    // what the counters say
	Directories int64    // the root and the trash left out
	Problems    []string // one line each, at most 100
}

// OK reports whether nothing is wrong.
func (r CheckReport) OK() bool { return len(r.Problems) == 0 }

func (r *CheckReport) problem(format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// Check walks a drive, its trash included, recomputes its counters and compares. It
// changes nothing and locks nothing: of a drive that is written to meanwhile it may report
// differences that are none. It holds the ids of directories and of files with several
// names in memory.
func (d *Drive) Check(ctx context.Context, fs tree.FS) (CheckReport, error) {
	var r CheckReport
	before, err := d.Usage(ctx, fs)
	if err != nil {
		return r, err
	}
	r.Recorded = before
	links := map[tree.Inode]*linked{}
	for todo := []tree.Inode{tree.Root, tree.Trash}; len(todo) > 0; {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for after, more := "", true; more; {
			nodes, err := d.tree.List(ctx, d.db, fs, dir, after, defaultList)
			if err != nil {
				return r, err
			}
			for _, n := range nodes {
				after = n.Name
				if n.Kind == tree.Directory {
					r.Directories++
					todo = append(todo, n.Inode)
					continue
				}
				r.count(n, links)
			}
			more = len(nodes) == defaultList
		}
	}
	for _, ino := range slices.Sorted(maps.Keys(links)) {
		if l := links[ino]; l.found != l.recorded {
			r.problem("inode %d has %d names and records %d", ino, l.found, l.recorded)
		}
	}
	if r.Counted.Reserved, err = d.reserved(ctx, fs); err != nil {
		return r, err
	}
	for _, c := range []struct {
		what              string
		counted, recorded int64
	}{
		{"bytes", r.Counted.Bytes, r.Recorded.Bytes},
		{"files", r.Counted.Files, r.Recorded.Files},
		{"reserved bytes", r.Counted.Reserved, r.Recorded.Reserved},
	} {
		if c.counted != c.recorded {
			r.problem("%d %s are there and %d are recorded", c.counted, c.what, c.recorded)
		}
	}
	return r, nil
}

// linked is a file with several names.
type linked struct{ found, recorded int64 }

// count counts a file or symbolic link, by its first name.
func (r *CheckReport) count(n tree.Node, links map[tree.Inode]*linked) {
	if n.NLink != 1 {
		if l := links[n.Inode]; l != nil {
			l.found++
			return
		}
		links[n.Inode] = &linked{found: 1, recorded: n.NLink}
	}
	r.Counted.Files++
	r.Counted.Bytes += n.Size
}

// reserved sums what open uploads have declared.
func (d *Drive) reserved(ctx context.Context, fs tree.FS) (total int64, err error) {
	for after := ""; ; {
		uploads, err := d.content.Uploads(ctx, d.db, int64(fs), after, defaultList)
		if err != nil {
			return 0, err
		}
		for _, u := range uploads {
			after = u.ID
			if u.State == content.Open {
				total += u.Size
			}
		}
		if len(uploads) < defaultList {
			return total, nil
		}
	}
}
