package local

import (
	"errors"

	"golang.org/x/sys/unix"
)

// openPath opens a directory only to name what lies in it: that needs no right to read.
const openPath = unix.O_PATH

// beneath is the resolver in one system call. O_NOFOLLOW is not wanted: beside
// O_DIRECTORY it makes a link "not a directory", which would pass for a missing file.
func beneath(dir int, name string, flags int) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		// EAGAIN: something was renamed meanwhile and the kernel is not sure.
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}
