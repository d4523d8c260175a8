package removal

import (
	"context"
	"slices"

	"github.com/lethe-project/lethe/internal/drive/tree"
)

// batch is what one transaction drains: whole directories, or a slice of one.
type batch struct {
	dirs        []tree.Inode
	slice       bool
	after, upto string
	files       int // as the plain reads saw them
}

func (b batch) within() tree.Range {
	if b.slice {
		return tree.Range{Slice: &tree.Slice{Parent: b.dirs[0], After: b.after, Upto: b.upto}}
	}
	return tree.Range{Parents: b.dirs}
}

// gather walks on with plain reads until it knows about one batch of files. A directory
// goes from todo to done before a child of it leaves todo, so that done holds parents
// before children.
func (s *sweep) gather(ctx context.Context) (batch, error) {
	for s.big != 0 {
		if b, err := s.sliceBig(ctx); err != nil || b.files > 0 {
			return b, err
		}
	}
	var b batch
	limit := s.m.batch
	seen, cut := 0, false
	// Nearly full is full: the last rows would be looked for one directory at a time.
	for rows := 0; len(s.todo) > 0 && rows < limit-limit/16 && len(b.dirs) < limit && len(s.done) < s.m.held; {
		// As many directories as should fit, by what this gather has seen of them.
		n := s.window
		switch {
		case rows > 0:
			n = max(1, (limit-rows)*seen/rows)
		case seen > 0:
			n = 2 * seen
		}
		at := len(s.todo) - min(len(s.todo), n, limit-len(b.dirs))
		ids := sortedSet(s.todo[at:])
		entries, err := s.m.tree.Children(ctx, s.m.sweeper, s.job.FS, ids, limit-rows+1)
		if err != nil {
			return batch{}, err
		}
		whole := ids
		if len(entries) > limit-rows { // the last directory seen may have more
			last := entries[len(entries)-1].Parent
			whole = ids[:slices.Index(ids, last)]
			entries = entries[:slices.IndexFunc(entries, func(e tree.Entry) bool { return e.Parent == last })]
			cut = true
		}
		rest := slices.Clone(ids[len(whole):])
		slices.Reverse(rest)
		s.todo = append(s.todo[:at], rest...)
		s.done = append(s.done, whole...)
		seen += len(whole)
		rows += len(entries)
		b.add(s, entries)
		switch {
		case len(rest) == 0:
		case len(whole) == 0 && rows == 0: // it alone is more than a batch
			s.big, s.after = s.todo[len(s.todo)-1], ""
			s.todo = s.todo[:len(s.todo)-1]
			s.narrow(seen, cut)
			return s.gather(ctx)
		case len(whole) == 0, rows >= limit/2:
			s.narrow(seen, cut)
			return b, nil
		}
	}
	s.narrow(seen, cut)
	return b, nil
}

// narrow chooses how many directories the next gather reads first.
func (s *sweep) narrow(seen int, cut bool) {
	switch {
	case cut:
		s.window = max(1, seen)
	case seen > 0:
		s.window = min(s.m.batch, max(2*seen, s.window))
	}
}

// add takes the entries of whole directories in: subdirectories are read next, files go
// with this batch.
func (b *batch) add(s *sweep, entries []tree.Entry) {
	for _, e := range entries {
		switch {
		case e.Dir:
			s.todo = append(s.todo, e.Inode)
		default:
			b.files++
			if n := len(b.dirs); n == 0 || b.dirs[n-1] != e.Parent { // entries come grouped
				b.dirs = append(b.dirs, e.Parent)
			}
		}
	}
}

// sliceBig reads the next slice of a directory of more entries than a batch.
func (s *sweep) sliceBig(ctx context.Context) (batch, error) {
	limit := s.m.batch
	entries, err := s.m.tree.Slice(ctx, s.m.sweeper, s.job.FS, s.big, s.after, limit+1)
	if err != nil {
		return batch{}, err
	}
	more := len(entries) > limit
	entries = entries[:min(len(entries), limit)]
	b := batch{dirs: []tree.Inode{s.big}, slice: true, after: s.after}
	for _, e := range entries {
		b.upto = e.Name
		if e.Dir {
			s.todo = append(s.todo, e.Inode)
		} else {
			b.files++
		}
	}
	s.after = b.upto
	if !more || len(s.todo) > s.m.held { // the rest is for the next pass
		s.done = append(s.done, s.big)
		s.big = 0
	}
	return b, nil
}
