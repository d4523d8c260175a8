package local

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"syscall"

	"github.com/lethe-project/lethe/internal/blob"
)

// DeleteMany removes files, and the ".name.crc" that Hadoop's local file system keeps
// beside each. Keys of one directory share one open of it: a file costs one or two
// system calls, however deep it lies.
func (b *Bucket) DeleteMany(ctx context.Context, keys []blob.Key) []blob.Result {
	results := make([]blob.Result, len(keys))
	byDir := make(map[string][]int)
	bases := make([]string, len(keys))
	var order []string
	for i, key := range keys {
		results[i].Key = key
		name, ok := clean(key)
		if !ok {
			results[i].Outcome = blob.Missing
			continue
		}
		dir := path.Dir(name)
		bases[i] = path.Base(name)
		if _, known := byDir[dir]; !known {
			order = append(order, dir)
		}
		byDir[dir] = append(byDir[dir], i)
	}
	for _, dir := range order {
		b.deleteIn(ctx, dir, byDir[dir], bases, results)
	}
	return results
}

// deleteIn deletes the keys with the given indexes, which all lie in dir.
func (b *Bucket) deleteIn(ctx context.Context, dir string, indexes []int, bases []string, results []blob.Result) {
	settle := func(i int, err error) {
		r := &results[i]
		if err == nil {
			r.Outcome = blob.Deleted
			return
		}
		e := b.wrap("delete", r.Key, err)
		if e.Class == blob.NotExist {
			r.Outcome = blob.Missing
			return
		}
		r.Outcome, r.Err = blob.Failed, e
	}
	d, err := b.root.openDir(dir)
	if err != nil {
		for _, i := range indexes {
			settle(i, err)
		}
		return
	}
	defer func() { _ = d.Close() }()
	noCRC := b.crc.none(dir, d, len(indexes))
	for _, i := range indexes {
		if ctx.Err() != nil {
			settle(i, context.Cause(ctx))
			continue
		}
		// The checksum goes first: a crash in between leaves the key, which a second
		// delete finds, and never a checksum that nothing names.
		if !noCRC {
			if err := unlink(d, crcName(bases[i])); err != nil && !ignorable(err) {
				settle(i, err)
				continue
			}
		}
		settle(i, unlink(d, bases[i]))
		if results[i].Outcome == blob.Missing { // its writer may have been killed
			_ = removeLeftover(d, tempPrefix+bases[i])
		}
	}
}

// ignorable reports whether a checksum file is simply not there, or is no file.
func ignorable(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errDirectory) ||
		errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.EPERM)
}
