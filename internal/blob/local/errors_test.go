package local

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
)

func TestErrorClasses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		errno syscall.Errno
		op    string
		want  blob.Class
	}{
		{syscall.ENOENT, "open", blob.NotExist},
		{syscall.ENOTDIR, "open", blob.NotExist},
		{syscall.ENOTDIR, "put", blob.Invalid},
		{syscall.ENAMETOOLONG, "put", blob.Invalid},
		{syscall.ENAMETOOLONG, "delete", blob.NotExist},
		{syscall.EEXIST, "put", blob.Exist},
		{syscall.EACCES, "delete", blob.Denied},
		{syscall.EPERM, "delete", blob.Denied},
		{syscall.EROFS, "delete", blob.Denied},
		{syscall.ENOSPC, "put", blob.Unavailable},
		{syscall.EIO, "delete", blob.Unavailable},
		{syscall.EMFILE, "delete", blob.Unavailable},
		{syscall.ENFILE, "open", blob.Unavailable},
		{syscall.EBUSY, "delete", blob.Other},
		{syscall.ELOOP, "open", blob.Denied},
	} {
		err := (&Bucket{}).wrap(test.op, "k", &fs.PathError{Op: "x", Path: "k", Err: test.errno})
		if err.Class != test.want {
			t.Errorf("%s of %s is %s, want %s", test.errno, test.op, err.Class, test.want)
		}
	}
}
