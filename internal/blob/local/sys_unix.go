//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// unlink removes the file name from the open directory d, and never a directory:
// os.Root.Remove would take an empty one.
func unlink(d *os.File, name string) error {
	err := unlinkat(d, name, 0)
	if errors.Is(err, unix.EISDIR) {
		return &fs.PathError{Op: "unlink", Path: name, Err: errDirectory}
	}
	return err
}

// rmdir removes the empty directory name from the open directory d.
func rmdir(d *os.File, name string) error { return unlinkat(d, name, unix.AT_REMOVEDIR) }

func unlinkat(d *os.File, name string, flags int) error {
	for {
		err := unix.Unlinkat(int(d.Fd()), name, flags)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return &fs.PathError{Op: "unlinkat", Path: name, Err: err}
		}
	}
}

// tryLock takes the file's lock, which ends with its descriptor, or fails at once.
func tryLock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
