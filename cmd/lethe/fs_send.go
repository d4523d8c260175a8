package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lethe-project/lethe/client"
)

// What the server gives what is made without a mode.
const (
	usualFile      = 0o644
	usualDirectory = 0o755
)

// sendPath sends what a local path names to a path of the drive. A link on the command
// line means what it points to.
func (t *transfer) sendPath(local, dest string) {
	info, err := os.Stat(local)
	switch {
	case err != nil:
		t.failed(local, err)
	case info.IsDir() && !t.flags.Recursive:
		t.failed(local, errDirectory)
	case info.IsDir():
		t.sendDirectory(local, dest, info.Mode())
	default:
		t.sendEntry(local, dest, info)
	}
}

// sendDirectory sends a tree. Directories come into being with what is in them; only an
// empty one is made, and modes are set where they are unusual.
func (t *transfer) sendDirectory(local, dest string, mode fs.FileMode) {
	entries, err := os.ReadDir(local)
	if err != nil {
		t.failed(local, err)
		return
	}
	t.count(tally{Directories: 1})
	if bits := uint32(mode.Perm()); len(entries) == 0 || bits != usualDirectory {
		establish := func(ctx context.Context) error {
			e, err := t.drive.Mkdir(ctx, dest, client.MkdirOptions{Parents: true, Mode: bits})
			if err == nil && e.Permissions() != bits && dest != "/" {
				_, err = t.drive.Chmod(ctx, dest, bits, client.ChangeOptions{})
			}
			return err
		}
		if len(entries) == 0 {
			t.do(local, establish)
		} else {
			t.later(func() { t.do(local, establish) })
		}
	}
	for _, entry := range entries {
		if t.ctx.Err() != nil {
			return
		}
		from, to := filepath.Join(local, entry.Name()), below(dest, entry.Name())
		info, err := entry.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile
		case err != nil:
			t.failed(from, err)
		case info.IsDir():
			t.sendDirectory(from, to, info.Mode())
		default:
			t.sendEntry(from, to, info)
		}
	}
}

// sendEntry sends what is no directory.
func (t *transfer) sendEntry(local, dest string, info fs.FileInfo) {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		t.expect(info.Size())
		t.do(local, func(ctx context.Context) error { return t.sendFile(ctx, local, dest) })
	case mode&fs.ModeSymlink != 0:
		t.do(local, func(ctx context.Context) error { return t.sendLink(ctx, local, dest) })
	default:
		t.skipped(local, "neither a file, a directory nor a link")
	}
}

func (t *transfer) sendFile(ctx context.Context, local, dest string) error {
	f, err := os.Open(local)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	// As many bytes as there are now: a file that grows is sent as it was.
	length := info.Size()
	bits := uint32(info.Mode().Perm())
	var e client.Entry
	if length > int64(t.flags.PartsAbove) {
		e, err = t.sendParts(ctx, f, length, dest)
	} else {
		body := &watched{ReadSeeker: io.NewSectionReader(f, 0, length), moved: t.moved}
		e, err = t.drive.Put(ctx, dest, body, client.PutOptions{Size: length, Mode: bits})
	}
	if err == nil && e.Permissions() != bits {
		_, err = t.drive.Chmod(ctx, dest, bits, client.ChangeOptions{})
	}
	if err == nil {
		t.count(tally{Files: 1, Bytes: length})
	}
	return err
}

// sendParts sends a large file, or what is missing of one that was interrupted.
func (t *transfer) sendParts(ctx context.Context, f io.ReaderAt, length int64, dest string) (client.Entry, error) {
	var arrived int64
	opts := client.UploadOptions{
		PartSize: int64(t.flags.PartSize), Parallel: min(t.flags.Parallel, partsAtOnce),
		Progress: func(n int64) { t.moved(n - arrived); arrived = n },
	}
	if t.flags.resume {
		var err error
		if opts.Resume, err = t.begun.find(ctx, t.drive, dest, length); err != nil {
			return client.Entry{}, err
		}
	}
	e, err := t.drive.Upload(ctx, dest, f, length, opts)
	if !t.flags.resume {
		return e, t.abandon(ctx, err)
	}
	if _, ok := errors.AsType[*client.UploadError](err); ok {
		err = fmt.Errorf("%w; what has arrived is kept, --resume goes on with it", err)
	}
	return e, err
}

// begunUploads are those that were open when a transfer first asked.
type begunUploads struct {
	once   sync.Once
	newest map[uploadTo]string // ids
	err    error
}

type uploadTo struct {
	path string
	size int64
}

// find is the id of the newest one to a path that has the size of the file; empty if there
// is none.
func (b *begunUploads) find(ctx context.Context, drive client.Drive, dest string, length int64) (string, error) {
	b.once.Do(func() {
		b.newest = map[uploadTo]string{}
		for u, err := range drive.Uploads(ctx) { // in the order in which they were begun
			if b.err = err; err != nil {
				return
			}
			b.newest[uploadTo{u.Path, u.Size}] = u.ID
		}
	})
	return b.newest[uploadTo{dest, length}], b.err
}

const (
	partsAtOnce = 4 // of one file
	abandonWait = 5 * time.Second
)

// abandon gives up an upload that failed, or was interrupted: its parts would stay until
// it expires.
func (t *transfer) abandon(ctx context.Context, err error) error {
	if failed, ok := errors.AsType[*client.UploadError](err); ok {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonWait)
		defer cancel()
		if abort := t.drive.AbortUpload(ctx, failed.ID); abort != nil && !client.IsNotFound(abort) {
			return errors.Join(err, abort)
		}
	}
	return err
}

// sendLink sends a symbolic link. An absolute one would mean another place on the drive.
func (t *transfer) sendLink(ctx context.Context, local, dest string) error {
	target, err := os.Readlink(local)
	if err != nil {
		return err
	}
	if filepath.IsAbs(target) {
		t.skipped(local, "a link to an absolute path, "+printable(target))
		return nil
	}
	if err := t.symlink(ctx, filepath.ToSlash(target), dest); err != nil {
		return err
	}
	t.count(tally{Links: 1})
	return nil
}

// symlink makes a link on the drive in the place of a file or link that may be there.
func (t *transfer) symlink(ctx context.Context, target, dest string) error {
	_, err := t.drive.Symlink(ctx, dest, target)
	if client.CodeOf(err) != "AlreadyExists" {
		return err
	}
	old, lerr := t.drive.Lstat(ctx, dest)
	switch {
	case lerr != nil:
		return lerr
	case old.Type == client.SymlinkType && old.Target == target:
		return nil
	case old.IsDir():
		return err
	}
	if _, err := t.drive.Remove(ctx, dest, client.ChangeOptions{IfMatch: old.ETag}); err != nil {
		return err
	}
	_, err = t.drive.Symlink(ctx, dest, target)
	return err
}

// watched tells how much of a body was read. One that begins anew takes it back.
type watched struct {
	io.ReadSeeker
	moved func(int64)
	at    int64
}

// Read reads on.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadSeeker.Read(p)
	w.at += int64(n)
	w.moved(int64(n))
	return n, err
}

// Seek moves. To look where the end is says nothing about what was sent.
func (w *watched) Seek(offset int64, whence int) (int64, error) {
	pos, err := w.ReadSeeker.Seek(offset, whence)
	if err == nil && whence == io.SeekStart {
		w.moved(pos - w.at)
		w.at = pos
	}
	return pos, err
}
