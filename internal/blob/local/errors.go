package local

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/lethe-project/lethe/internal/blob"
)

var (
	errNoFile    = errors.New("not a regular file")
	errNoName    = errors.New("no possible file name")
	errDirectory = errors.New("is a directory")
)

func noObject(op string, key blob.Key) error {
	return &blob.Error{Op: op, Key: key, Class: blob.NotExist, Err: errNoName}
}

// wrap classifies an error of the file system by its error number.
func (b *Bucket) wrap(op string, key blob.Key, err error) *blob.Error {
	e := &blob.Error{Op: op, Key: key, Class: blob.Other, Err: err}
	switch {
	case errors.Is(err, errNoFile), errors.Is(err, fs.ErrNotExist):
		e.Class = blob.NotExist
	case errors.Is(err, fs.ErrExist):
		e.Class = blob.Exist
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errLink):
		e.Class = blob.Denied
	default:
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			e.Class = classOf(errno)
		}
	}
	// A name that cannot be is Invalid to write; for everybody else it is not there.
	if e.Class == blob.Invalid && op != "put" {
		e.Class = blob.NotExist
	}
	return e
}

func classOf(errno syscall.Errno) blob.Class {
	switch errno {
	case syscall.ENAMETOOLONG, syscall.ENOTDIR, syscall.EILSEQ, syscall.EINVAL:
		return blob.Invalid
	case syscall.EROFS:
		return blob.Denied
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EMFILE, syscall.ENFILE,
		syscall.ENOMEM, syscall.ESTALE, syscall.ETIMEDOUT:
		return blob.Unavailable
	default:
		return blob.Other
	}
}
