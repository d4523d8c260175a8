//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// resolver opens a cleaned path below a directory and follows no link, the last
// component included: that is an error of ELOOP.
type resolver func(dir int, name string, flags int) (fd int, err error)

// root is the bucket's directory, held open.
type root struct {
	file    *os.File
	raw     syscall.RawConn // keeps the descriptor while a call uses it, whoever closes
	resolve resolver
}

func openRoot(dir string) (*root, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	r := &root{file: f, raw: raw, resolve: beneath}
	// Old kernels and some container runtimes do not have the one call that does it all.
	if _, err := r.stat("."); err != nil {
		r.resolve = walk
	}
	return r, nil
}

func (r *root) close() error { return r.file.Close() }

// use opens name and hands its descriptor to keep, which owns it.
func (r *root) use(name string, flags int, keep func(fd int) error) error {
	var err error
	closed := r.raw.Control(func(dir uintptr) {
		var fd int
		if fd, err = r.resolve(int(dir), name, flags|unix.O_CLOEXEC); err == nil {
			err = keep(fd)
		}
	})
	if closed != nil {
		return closed
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return nil
}

// open opens what lies at name ("." is the root).
func (r *root) open(name string, flags int) (f *os.File, err error) {
	err = r.use(name, flags, func(fd int) error {
		f = os.NewFile(uintptr(fd), name)
		return nil
	})
	return f, err
}

// openDir opens the directory at name.
func (r *root) openDir(name string) (*os.File, error) {
	return r.open(name, os.O_RDONLY|unix.O_DIRECTORY)
}

// stat describes what lies at name.
func (r *root) stat(name string) (st status, err error) {
	dir, base := ".", name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		dir, base = name[:i], name[i+1:]
	}
	err = r.use(dir, openPath|unix.O_DIRECTORY, func(fd int) (err error) {
		defer func() { _ = unix.Close(fd) }()
		st, err = statAt(fd, base)
		return err
	})
	if err == nil && st.link() {
		err = &fs.PathError{Op: "stat", Path: name, Err: errLink}
	}
	return st, err
}

// walk is the resolver for systems that have no other: component by component.
func walk(dir int, name string, flags int) (int, error) {
	at := dir
	for {
		part, rest, more := strings.Cut(name, "/")
		how := flags | unix.O_NOFOLLOW
		if more {
			how = openPath | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		}
		var fd int
		err := again("openat", part, func() (err error) {
			fd, err = unix.Openat(at, part, how, 0)
			return err
		})
		if err != nil {
			// The systems do not agree on what they say of a link.
			if st, lookErr := statAt(at, part); lookErr == nil && st.link() {
				err = errLink
			}
		}
		if at != dir {
			_ = unix.Close(at)
		}
		if err != nil || !more {
			return fd, err
		}
		at, name = fd, rest
	}
}
