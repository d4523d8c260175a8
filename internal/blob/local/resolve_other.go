//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package local

import "golang.org/x/sys/unix"

const openPath = unix.O_RDONLY

// beneath is not there; see walk.
func beneath(int, string, int) (int, error) { return -1, unix.ENOSYS }
