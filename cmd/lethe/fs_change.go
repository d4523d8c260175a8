package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/lethe-project/lethe/client"
)

type fsMkdirCmd struct {
	remote
	Paths   []string `arg:"" help:"Directories to make." placeholder:"PATH"`
	Parents bool     `name:"parents" short:"p" help:"Make those above them too; one that is there already is no error."`
	Mode    octal    `name:"mode" help:"Permission bits, such as 0750." placeholder:"MODE"`
}

// Run makes directories.
func (m *fsMkdirCmd) Run(ctx context.Context, c *console) error {
	paths, err := drivePaths(m.Paths)
	if err != nil {
		return err
	}
	drive, err := m.drive()
	if err != nil {
		return err
	}
	return c.each(ctx, paths, func(p string) error {
		e, err := drive.Mkdir(ctx, p, client.MkdirOptions{Parents: m.Parents, Mode: uint32(m.Mode)})
		switch {
		case client.IsNotFound(err):
			return hintError{err, "Add -p to make the directories above it."}
		case err != nil || !m.JSON:
			return err
		}
		return c.json(e)
	})
}

// octal is permission bits on the command line.
type octal uint32

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *octal) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || n > 0o7777 {
		return fmt.Errorf("%q is no mode: write permission bits in octal, such as 0644", text)
	}
	*o = octal(n)
	return nil
}

type fsMoveCmd struct {
	remote
	Paths     []string `arg:"" name:"from-then-to" help:"What to move; last, its new path, or the directory to move it into."`
	NoReplace bool     `name:"no-replace" short:"n" help:"Fail where something is there already."`
}

// Run renames.
func (m *fsMoveCmd) Run(ctx context.Context, c *console) error {
	args, dest, err := fromTo(m.Paths)
	if err != nil {
		return err
	}
	from, err := drivePaths(args)
	if err != nil {
		return err
	}
	to, err := drivePath(dest)
	if err != nil {
		return err
	}
	drive, err := m.drive()
	if err != nil {
		return err
	}
	into, err := isInto(ctx, drive, dest, len(from))
	if err != nil {
		return err
	}
	return c.each(ctx, from, func(p string) error {
		target := to
		if into {
			target = below(to, path.Base(p))
		}
		e, err := drive.Rename(ctx, p, target, client.ChangeOptions{NoReplace: m.NoReplace})
		if err != nil || !m.JSON {
			return missingPath(err, p)
		}
		return c.json(e)
	})
}

// isInto reports whether what is moved or copied to a path of the drive goes into it: it
// is a directory, or is meant to be one.
func isInto(ctx context.Context, drive client.Drive, arg string, sources int) (bool, error) {
	to, err := drivePath(arg)
	if err != nil {
		return false, err
	}
	e, err := drive.Stat(ctx, to)
	switch {
	case client.IsNotFound(err), client.StatusOf(err) == 403: // what may be written need not be readable
		return strings.HasSuffix(arg, "/") || sources > 1, nil
	case err != nil:
		return false, err
	case !e.IsDir() && (sources > 1 || strings.HasSuffix(arg, "/")):
		return false, fmt.Errorf("%s is no directory", printable(to))
	}
	return e.IsDir(), nil
}

type fsLinkCmd struct {
	remote
	Target   string `arg:"" help:"File to give another name; with -s the text of the link, such as ../a."`
	Link     string `arg:"" help:"The other name."`
	Symbolic bool   `name:"symbolic" short:"s" help:"Make a symbolic link."`
}

// Run makes a link.
func (l *fsLinkCmd) Run(ctx context.Context, c *console) error {
	link, err := drivePath(l.Link)
	if err != nil {
		return err
	}
	target := l.Target
	if !l.Symbolic {
		if target, err = drivePath(target); err != nil {
			return err
		}
	}
	drive, err := l.drive()
	if err != nil {
		return err
	}
	var e client.Entry
	if l.Symbolic {
		e, err = drive.Symlink(ctx, link, strings.TrimPrefix(target, onDrive))
	} else {
		e, err = drive.Link(ctx, target, link)
	}
	if err != nil || !l.JSON {
		return err
	}
	return c.json(e)
}

type fsChmodCmd struct {
	remote
	Mode  octal    `arg:"" help:"Permission bits in octal, such as 0644."`
	Paths []string `arg:"" help:"Files and directories." placeholder:"PATH"`
}

// Run sets permission bits.
func (m *fsChmodCmd) Run(ctx context.Context, c *console) error {
	paths, err := drivePaths(m.Paths)
	if err != nil {
		return err
	}
	drive, err := m.drive()
	if err != nil {
		return err
	}
	return c.each(ctx, paths, func(p string) error {
		e, err := drive.Chmod(ctx, p, uint32(m.Mode), client.ChangeOptions{})
		if err != nil || !m.JSON {
			return missingPath(err, p)
		}
		return c.json(e)
	})
}

type fsTagCmd struct {
	remote
	Path   string   `arg:"" help:"File or directory."`
	Set    []string `arg:"" optional:"" help:"Tags to set. Without any, they are shown." placeholder:"KEY=VALUE"`
	Remove []string `name:"remove" sep:"none" help:"Tag to remove. May be given several times." placeholder:"KEY"`
}

// Run shows or changes tags.
func (t *fsTagCmd) Run(ctx context.Context, c *console) error {
	p, err := drivePath(t.Path)
	if err != nil {
		return err
	}
	set := map[string]string{}
	for _, pair := range t.Set {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return usageError{fmt.Errorf("%q is no tag: write KEY=VALUE, or --remove KEY", pair)}
		}
		set[key] = value
	}
	for _, key := range t.Remove {
		if _, both := set[key]; both {
			return usageError{errors.New("tag " + key + " is both set and removed")}
		}
	}
	drive, err := t.drive()
	if err != nil {
		return err
	}
	var tags map[string]string
	if len(set)+len(t.Remove) > 0 {
		tags, err = drive.Tag(ctx, p, set, t.Remove)
	} else {
		tags, err = drive.Tags(ctx, p)
	}
	if err != nil {
		return missingPath(err, p)
	}
	if t.JSON {
		return c.json(tags)
	}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if err := c.print("%s=%s", printable(key), printable(tags[key])); err != nil {
			return err
		}
	}
	return nil
}
