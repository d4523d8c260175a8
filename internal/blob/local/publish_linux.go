package local

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// publish gives the file from, in the open directory d, its final name, and fails when that
// is taken. It is one step: a writer that is killed leaves one name, never both.
func publish(d *os.File, from, to string) error {
	err := again("renameat2", to, func() error {
		return unix.Renameat2(int(d.Fd()), from, int(d.Fd()), to, unix.RENAME_NOREPLACE)
	})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // a file system that cannot
		return linkOver(d, from, to)
	}
	return err
}
