package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/lethe-project/lethe/client"
)

type fsCmd struct {
	List      fsListCmd      `cmd:"" name:"ls" help:"List directories."`
	Stat      fsStatCmd      `cmd:"" help:"Show what a path names."`
	Cat       fsCatCmd       `cmd:"" help:"Write files to the standard output."`
	Put       fsPutCmd       `cmd:"" help:"Send local files and directories to the drive."`
	Get       fsGetCmd       `cmd:"" help:"Fetch files and directories from the drive."`
	Copy      fsCopyCmd      `cmd:"" name:"cp" help:"Copy to, from and within the drive; lethe:/a/b is a path of the drive."`
	Move      fsMoveCmd      `cmd:"" name:"mv" help:"Rename or move within the drive."`
	Remove    fsRemoveCmd    `cmd:"" name:"rm" help:"Delete files; with -r, directories with everything in them."`
	Mkdir     fsMkdirCmd     `cmd:"" help:"Make directories."`
	Link      fsLinkCmd      `cmd:"" name:"ln" help:"Give a file another name, or with -s make a symbolic link."`
	Chmod     fsChmodCmd     `cmd:"" help:"Set permission bits."`
	Tag       fsTagCmd       `cmd:"" help:"Show, set and remove tags."`
	Usage     fsUsageCmd     `cmd:"" name:"du" help:"Sum up what directories hold."`
	Check     fsCheckCmd     `cmd:"" help:"Recompute the drive's counters and compare."`
	Trash     fsTrashCmd     `cmd:"" help:"List, restore and empty what was deleted."`
	Reconcile fsReconcileCmd `cmd:"" help:"Look for what nothing reaches, and repair it."`
	Scrub     fsScrubCmd     `cmd:"" help:"List the store against what the drive names."`
}

// Help tells how paths are written.
func (*fsCmd) Help() string {
	return `A path of the drive begins with a slash; lethe: before it tells it from a local one, which
only cp needs. Names are kept byte for byte.`
}

// onDrive marks a path of the drive.
const onDrive = "lethe:"

// drivePath reads a path of the drive; the slash at its end, if any, says nothing.
func drivePath(arg string) (string, error) {
	p := strings.TrimPrefix(arg, onDrive)
	if !strings.HasPrefix(p, "/") {
		return "", usageError{fmt.Errorf("%q is no path of the drive: write /a/b or lethe:/a/b", arg)}
	}
	if trimmed := strings.TrimRight(p, "/"); trimmed != "" {
		return trimmed, nil
	}
	return "/", nil
}

func drivePaths(args []string) ([]string, error) {
	paths := make([]string, len(args))
	for i, arg := range args {
		var err error
		if paths[i], err = drivePath(arg); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// below joins a directory of the drive and a name, which is kept as it is.
func below(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

func (r *remote) drive() (client.Drive, error) {
	server, err := r.connect()
	if err != nil {
		return client.Drive{}, err
	}
	return server.Drive(), nil
}

// each does something to several paths. One that fails does not stop the others.
func (c *console) each(ctx context.Context, paths []string, do func(path string) error) error {
	var failed []error
	for _, p := range paths {
		if err := do(p); err != nil {
			if ctx.Err() != nil || len(paths) == 1 {
				return err
			}
			c.fail(fmt.Errorf("%s: %w", printable(p), err))
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d failed", len(failed), len(paths))
	}
	return nil
}

type fsListCmd struct {
	remote
	Paths []string `arg:"" optional:"" help:"Directories, or files. Default: /." placeholder:"PATH"`
}

// Run lists directories.
func (l *fsListCmd) Run(ctx context.Context, c *console) error {
	if len(l.Paths) == 0 {
		l.Paths = []string{"/"}
	}
	paths, err := drivePaths(l.Paths)
	if err != nil {
		return err
	}
	drive, err := l.drive()
	if err != nil {
		return err
	}
	return c.each(ctx, paths, func(p string) error {
		e, err := drive.Stat(ctx, p)
		if err != nil {
			return err
		}
		if !e.IsDir() {
			e.Name = p
			return l.show(c, e)
		}
		if len(paths) > 1 && !l.JSON {
			if err := c.print("%s:", printable(p)); err != nil {
				return err
			}
		}
		for e, err := range drive.List(ctx, p) {
			if err != nil {
				return err
			}
			if l.JSON {
				e.Path = below(p, e.Name)
			}
			if err := l.show(c, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// show writes an entry at once: a directory may be larger than memory.
func (l *fsListCmd) show(c *console, e client.Entry) error {
	if l.JSON {
		return c.json(e)
	}
	name := printable(e.Name)
	if e.Target != "" {
		name += " -> " + printable(e.Target)
	}
	return c.print("%s %3d %10s  %s  %s", modeOf(e), e.NLink, size(e.Size), moment(e.MTime), name)
}

// modeOf writes type and permissions as ls does.
func modeOf(e client.Entry) string {
	kind := map[client.EntryType]os.FileMode{client.DirectoryType: os.ModeDir, client.SymlinkType: os.ModeSymlink}[e.Type]
	text := (kind | os.FileMode(e.Permissions()).Perm()).String()
	return strings.Replace(text, "L", "l", 1)
}

type fsStatCmd struct {
	remote
	Path     string `arg:"" help:"Path of the drive."`
	NoFollow bool   `name:"no-follow" help:"Show a symbolic link itself."`
}

// Run shows one entry.
func (s *fsStatCmd) Run(ctx context.Context, c *console) error {
	p, err := drivePath(s.Path)
	if err != nil {
		return err
	}
	drive, err := s.drive()
	if err != nil {
		return err
	}
	look := drive.Stat
	if s.NoFollow {
		look = drive.Lstat
	}
	e, err := look(ctx, p)
	if err != nil {
		return missingPath(err, p)
	}
	if s.JSON {
		return c.json(e)
	}
	out := c.rows()
	out.add("path", e.Path)
	out.add("type", string(e.Type))
	if e.Target != "" {
		out.add("target", e.Target)
	}
	if !e.IsDir() {
		out.add("size", strconv.FormatInt(e.Size, 10))
	}
	out.add("mode", e.Mode)
	out.add("inode", strconv.FormatInt(e.Inode, 10))
	out.add("revision", strconv.FormatInt(e.Revision, 10))
	out.add("links", strconv.FormatInt(e.NLink, 10))
	out.add("modified", moment(e.MTime))
	if e.SHA256 != "" {
		out.add("sha256", e.SHA256)
	}
	out.add("etag", e.ETag)
	return out.flush()
}

// missingPath says where to look for a path that is not there.
func missingPath(err error, p string) error {
	if client.IsNotFound(err) && p != "/" {
		return hintError{err, "See what there is: lethe fs ls " + shell(path.Dir(p))}
	}
	return err
}

type fsCatCmd struct {
	remote
	Paths  []string `arg:"" help:"Files." placeholder:"PATH"`
	Offset int64    `name:"offset" help:"Bytes to leave out at the beginning." placeholder:"BYTES"`
	Length int64    `name:"length" help:"Bytes to write, instead of all." placeholder:"BYTES"`
}

// Validate refuses what no file has.
func (f *fsCatCmd) Validate() error {
	if f.Offset < 0 || f.Length < 0 {
		return errors.New("--offset and --length are not negative")
	}
	return nil
}

// Run writes files. What follows a broken one would be taken for its end: nothing does.
func (f *fsCatCmd) Run(ctx context.Context, c *console) error {
	paths, err := drivePaths(f.Paths)
	if err != nil {
		return err
	}
	drive, err := f.drive()
	if err != nil {
		return err
	}
	for _, p := range paths {
		file, err := drive.Get(ctx, p, client.GetOptions{Offset: f.Offset, Length: f.Length})
		if err != nil {
			return missingPath(err, p)
		}
		_, err = io.Copy(c.out, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}
