//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// errLink is what every access through a symbolic link ends with.
const errLink = unix.ELOOP

// unlink removes the file name from the open directory d, and never a directory. A
// symbolic link is removed itself.
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
	return again("unlinkat", name, func() error { return unix.Unlinkat(int(d.Fd()), name, flags) })
}

// link gives the file from, in the open directory d, another name there. It fails when
// the name is taken.
func link(d *os.File, from, to string) error {
	return again("linkat", to, func() error { return unix.Linkat(int(d.Fd()), from, int(d.Fd()), to, 0) })
}

// linkOver is publish in two steps, for where there is no other: a writer that is killed
// between them leaves both names.
func linkOver(d *os.File, from, to string) error {
	if err := link(d, from, to); err != nil {
		return err
	}
	_ = unlink(d, from) // the file has its name; a second one only stays until its delete
	return nil
}

// mkdir makes a directory in the open directory d.
func mkdir(d *os.File, name string) error {
	return again("mkdirat", name, func() error { return unix.Mkdirat(int(d.Fd()), name, dirMode) })
}

// status is what a file is, links not followed.
type status struct {
	mode uint32
	size int64
	mod  time.Time
}

func (s status) regular() bool { return s.mode&unix.S_IFMT == unix.S_IFREG }
func (s status) link() bool    { return s.mode&unix.S_IFMT == unix.S_IFLNK }

// statIn describes name in the open directory d.
func statIn(d *os.File, name string) (status, error) { return statAt(int(d.Fd()), name) }

func statAt(dir int, name string) (status, error) {
	var st unix.Stat_t
	err := again("fstatat", name, func() error { return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return statusOf(&st), err
}

func statusOf(st *unix.Stat_t) status {
	sec, nsec := st.Mtim.Unix()
	return status{mode: uint32(st.Mode), size: st.Size, mod: time.Unix(sec, nsec)} //nolint:unconvert // narrower on some systems
}

// openIn opens name in the open directory d, which is no link.
func openIn(d *os.File, name string, flags int, mode uint32) (*os.File, error) {
	var fd int
	err := again("openat", name, func() (err error) {
		fd, err = unix.Openat(int(d.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// tryLock takes the file's lock, which ends with its descriptor, or fails at once.
func tryLock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// again repeats a call that a signal interrupted.
func again(op, name string, call func() error) error {
	for {
		err := call()
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return &fs.PathError{Op: op, Path: name, Err: err}
		}
	}
}
