package main

import (
	"context"
	"errors"
	"strings"

	"github.com/lethe-project/lethe/client"
)

// copyPath copies within the drive.
func (t *transfer) copyPath(from, dest string) {
	e, err := t.drive.Stat(t.ctx, from)
	if err == nil && e.Path != "" {
		from = e.Path // a link that is named means what it leads to
	}
	switch {
	case err != nil:
		t.failed(from, err)
	case e.IsDir() && !t.flags.Recursive:
		t.failed(from, errDirectory)
	case dest == from || e.IsDir() && strings.HasPrefix(dest+"/", strings.TrimSuffix(from, "/")+"/"):
		t.failed(from, errIntoItself)
	case e.IsDir():
		t.copyDirectory(from, dest, e)
	default:
		t.copyFile(from, dest, e)
	}
}

var errIntoItself = errors.New("it cannot be copied into itself")

// copyDirectory makes the directory, one that is there being none the worse, and copies
// what is in it. A link on the way may have led below what is copied: that would have no end.
func (t *transfer) copyDirectory(from, dest string, e client.Entry) {
	made, err := t.drive.Mkdir(t.ctx, dest, client.MkdirOptions{Parents: true, Mode: e.Permissions()})
	if err == nil && strings.HasPrefix(made.Path+"/", from+"/") {
		err = errIntoItself
	}
	if err != nil {
		t.failed(from, err)
		return
	}
	if made.Permissions() != e.Permissions() && dest != "/" {
		t.do(from, func(ctx context.Context) error {
			_, err := t.drive.Chmod(ctx, dest, e.Permissions(), client.ChangeOptions{})
			return err
		})
	}
	t.count(tally{Directories: 1})
	for e, err := range t.drive.List(t.ctx, from) {
		if err != nil {
			t.failed(from, err)
			return
		}
		source, to := below(from, e.Name), below(dest, e.Name)
		switch e.Type {
		case client.DirectoryType:
			t.copyDirectory(source, to, e)
		case client.SymlinkType:
			t.do(source, func(ctx context.Context) error {
				if err := t.symlink(ctx, e.Target, to); err != nil {
					return err
				}
				t.count(tally{Links: 1})
				return nil
			})
		default:
			t.copyFile(source, to, e)
		}
	}
}

func (t *transfer) copyFile(from, dest string, e client.Entry) {
	t.expect(e.Size)
	t.do(from, func(ctx context.Context) error {
		copied, err := t.drive.Copy(ctx, from, dest, client.ChangeOptions{})
		if err == nil {
			t.moved(copied.Size)
			t.count(tally{Files: 1, Bytes: copied.Size})
		}
		return err
	})
}
