package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/lethe-project/lethe/internal/blob"
)

// pruneLook is how many names of a directory are looked at together.
const pruneLook = 8

// PruneDirs removes the directories of the keys and those above them, deepest first,
// as long as they are empty, up to and including top. An empty top stands for the root,
// which itself stays. A directory that holds nothing but temporary files of dead
// writers counts as empty. What is not empty is no error.
func (b *Bucket) PruneDirs(ctx context.Context, keys []blob.Key, top blob.Key) error {
	limit := path.Clean("/" + string(top))[1:]
	inside := func(dir string) bool {
		return dir != "." && dir != "/" && (limit == "" || dir == limit || strings.HasPrefix(dir, limit+"/"))
	}
	todo := make(map[string]struct{})
	for _, key := range keys {
		name, ok := clean(key)
		if !ok {
			continue
		}
		for dir := path.Dir(name); inside(dir); dir = path.Dir(dir) {
			if _, known := todo[dir]; known {
				break
			}
			todo[dir] = struct{}{}
		}
	}
	dirs := make([]string, 0, len(todo))
	for dir := range todo {
		dirs = append(dirs, dir)
	}
	// A child is longer than its parent.
	slices.SortFunc(dirs, func(a, b string) int { return len(b) - len(a) })
	var errs []error
	for _, dir := range dirs {
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		err := b.removeEmpty(dir)
		if !isNotEmpty(err) { // else it stands, and what is known of its checksums holds
			b.crc.forget(dir)
		}
		if err := settledPrune(err); err != nil {
			errs = append(errs, b.wrap("prune", blob.Key(dir), err))
		}
	}
	return errors.Join(errs...)
}

// removeEmpty removes dir if it is an empty directory.
func (b *Bucket) removeEmpty(dir string) error {
	parent, err := b.root.openDir(path.Dir(dir))
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	base := path.Base(dir)
	err = rmdir(parent, base)
	if isNotEmpty(err) && removeLeftovers(parent, base) {
		err = rmdir(parent, base)
	}
	return err
}

// settledPrune drops the errors that say: gone already, in use, or no directory.
func settledPrune(err error) error {
	if errors.Is(err, fs.ErrNotExist) || isNotEmpty(err) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}

func isNotEmpty(err error) bool {
	return errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST)
}

// removeLeftovers removes the temporary files of dead writers from a directory that
// holds nothing else, and reports whether it is worth trying to remove it again.
func removeLeftovers(parent *os.File, base string) bool {
	d, err := openIn(parent, base, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return false
	}
	defer func() { _ = d.Close() }()
	var temps []string
	for len(temps) < listChunk {
		// A few at a time: most directories are in use, and the first name tells.
		names, err := d.Readdirnames(pruneLook)
		if err != nil && !errors.Is(err, io.EOF) {
			return false
		}
		if len(names) == 0 {
			break
		}
		if slices.ContainsFunc(names, func(name string) bool { return !strings.HasPrefix(name, tempPrefix) }) {
			return false
		}
		temps = append(temps, names...)
	}
	for _, name := range temps {
		if err := removeLeftover(d, name); err != nil {
			return false
		}
	}
	return true
}

// removeLeftover removes one temporary file unless its writer lives, which holds the
// lock on it.
func removeLeftover(d *os.File, name string) error {
	f, err := openIn(d, name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := tryLock(f); err != nil {
		return fmt.Errorf("temporary file in use: %w", err)
	}
	return unlink(d, name)
}
