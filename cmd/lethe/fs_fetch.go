package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/lethe-project/lethe/client"
)

// fetchPath fetches what a path of the drive names to a local path.
func (t *transfer) fetchPath(from, dest string) {
	e, err := t.drive.Stat(t.ctx, from)
	switch {
	case err != nil:
		t.failed(from, err)
		return
	case e.IsDir() && !t.flags.Recursive:
		t.failed(from, errDirectory)
		return
	}
	// A file takes the place of what is there: of a device, also behind a link such as
	// /dev/stdout, that would be the end of it.
	if there, err := os.Stat(dest); !e.IsDir() && err == nil && !there.Mode().IsRegular() && !there.IsDir() {
		t.failed(dest, errNoFile)
		return
	}
	// Everything is written through a root: nothing, neither a name that comes nor a link
	// that is there, leads out of it.
	dir, name := filepath.Split(filepath.Clean(dest))
	if e.IsDir() {
		dir, name = dest, "."
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.failed(dest, err)
			return
		}
	}
	root, err := os.OpenRoot(filepath.Clean(dir))
	if err != nil {
		t.failed(dest, err)
		return
	}
	t.later(func() { // the first to be kept is the last to be done
		if err := root.Close(); err != nil {
			t.failed(dest, err)
		}
	})
	f := &fetch{t, root}
	if e.IsDir() {
		t.count(tally{Directories: 1})
		f.directory(from, name)
	} else {
		f.file(from, name, e)
	}
}

var errNoFile = errors.New("what is there is no file, and would be replaced by one")

// fetch is a transfer into one local directory.
type fetch struct {
	*transfer
	root *os.Root
}

// directory fetches what is in a directory to one that is there.
func (f *fetch) directory(from, to string) {
	for e, err := range f.drive.List(f.ctx, from) {
		if err != nil {
			f.failed(from, err)
			return
		}
		source := below(from, e.Name)
		if !safe(e.Name) {
			f.failed(source, errors.New("its name is none that a file of this machine can have"))
			continue
		}
		name := filepath.Join(to, e.Name)
		switch e.Type {
		case client.DirectoryType:
			f.makeDirectory(source, name, e)
		case client.SymlinkType:
			f.do(source, func(context.Context) error { return f.link(source, name, e) })
		default:
			f.file(source, name, e)
		}
	}
}

// safe reports whether a name of the drive is one component of a local path.
func safe(name string) bool {
	return filepath.IsLocal(name) && name != "." && !strings.ContainsAny(name, "/\x00") && !strings.ContainsRune(name, filepath.Separator)
}

// makeDirectory makes a directory that can be written into, fills it, and gives it its
// mode in the end. One that is there already keeps its own.
func (f *fetch) makeDirectory(source, name string, e client.Entry) {
	switch err := f.root.Mkdir(name, 0o700); {
	case err == nil:
		f.later(func() {
			if err := f.root.Chmod(name, fs.FileMode(e.Permissions()).Perm()); err != nil {
				f.failed(source, err)
			}
		})
	case !errors.Is(err, fs.ErrExist):
		f.failed(source, err)
		return
	default:
		if info, serr := f.root.Stat(name); serr != nil || !info.IsDir() {
			f.failed(source, err)
			return
		}
	}
	f.count(tally{Directories: 1})
	f.directory(source, name)
}

func (f *fetch) file(source, name string, e client.Entry) {
	f.expect(e.Size)
	f.do(source, func(ctx context.Context) error {
		n, err := f.write(ctx, source, name, e)
		if err == nil {
			f.count(tally{Files: 1, Bytes: n})
		}
		return err
	})
}

// write writes a file beside its place and moves it there when it is whole.
func (f *fetch) write(ctx context.Context, source, name string, e client.Entry) (n int64, err error) {
	file, err := f.drive.Get(ctx, source, client.GetOptions{})
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if there, err := f.root.Lstat(name); err == nil && there.Mode().Type()&^fs.ModeSymlink != 0 && !there.IsDir() {
		return 0, errNoFile
	}
	beside := filepath.Join(filepath.Dir(name), partial())
	out, err := f.root.OpenFile(beside, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.discard(beside))
		}
	}()
	n, err = io.Copy(out, io.TeeReader(file, mover(f.moved)))
	if err == nil {
		err = out.Chmod(fs.FileMode(e.Permissions()).Perm())
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return n, err
	}
	return n, f.root.Rename(beside, name)
}

func (f *fetch) discard(name string) error {
	if err := f.root.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// partial is a name for a file that is not whole yet.
func partial() string { return ".lethe-" + strings.ToLower(rand.Text()[:16]) }

// mover tells how many bytes were written to it.
type mover func(int64)

// Write implements io.Writer.
func (m mover) Write(p []byte) (int, error) {
	m(int64(len(p)))
	return len(p), nil
}

// leadsOut reports whether a link of a name leads, or might lead, above the root. Only dots
// at the beginning are sure to stay below: behind a name, which may be a link itself, they
// go up from elsewhere.
func leadsOut(name, target string) bool {
	named := false
	for part := range strings.SplitSeq(target, "/") {
		if part == ".." && named {
			return true
		}
		named = named || part != ".." && part != "." && part != ""
	}
	return path.IsAbs(target) || !filepath.IsLocal(filepath.Join(filepath.Dir(name), filepath.FromSlash(target)))
}

// link makes a symbolic link, in the place of a file or link that may be there. One that
// leads out of what is fetched is left out: whoever follows it here would be elsewhere.
func (f *fetch) link(source, name string, e client.Entry) error {
	target := e.Target
	if leadsOut(name, target) {
		f.skipped(source, "a link that leads out of what is fetched, to "+printable(target))
		return nil
	}
	beside := filepath.Join(filepath.Dir(name), partial())
	if err := f.root.Symlink(filepath.FromSlash(target), beside); err != nil {
		return err
	}
	if err := f.root.Rename(beside, name); err != nil {
		return errors.Join(fmt.Errorf("make the link: %w", err), f.discard(beside))
	}
	f.count(tally{Links: 1})
	return nil
}
