package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lethe-project/lethe/client"
)

// transferFlags are the flags of commands that move files.
type transferFlags struct {
	remote
	Recursive  bool      `name:"recursive" short:"r" help:"Directories too, with everything in them."`
	Parallel   int       `name:"parallel" default:"8" help:"Files under way at once." placeholder:"N"`
	PartsAbove byteCount `name:"parts-above" default:"64MiB" help:"Files larger than this are sent in parts." placeholder:"SIZE"`
	PartSize   byteCount `name:"part-size" default:"16MiB" help:"Size of a part." placeholder:"SIZE"`

	resume bool // uploads that were begun before go on, and one that fails is kept
}

const maxParallel = 256

// Validate refuses numbers that mean nothing.
func (f *transferFlags) Validate() error {
	if f.Parallel < 1 || f.Parallel > maxParallel {
		return fmt.Errorf("--parallel is 1 to %d", maxParallel)
	}
	if f.PartSize < 1 {
		return errors.New("--part-size is at least one byte")
	}
	return nil
}

// byteCount is a number of bytes on the command line.
type byteCount int64

// UnmarshalText reads 123, 5MB (millions) and 5MiB (powers of 1024).
func (b *byteCount) UnmarshalText(text []byte) error {
	digits := strings.TrimRight(string(text), "kKMGTPEiB")
	n, err := strconv.ParseInt(digits, 10, 64)
	unit, known := map[string]int64{
		"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50,
	}[string(text[len(digits):])]
	if err != nil || !known || n < 0 || unit > 0 && n > (1<<63-1)/unit {
		return fmt.Errorf("%q is no size: write 5000000, 5MB or 5MiB", text)
	}
	*b = byteCount(n * unit)
	return nil
}

type fsPutCmd struct {
	transferFlags
	Resume bool     `name:"resume" help:"Go on with uploads in parts that were interrupted, and keep them when they are again."`
	Paths  []string `arg:"" name:"from-then-to" help:"Local files and directories, - being the standard input; last, the path of the drive, or the directory there to put them into."`
}

// Run sends.
func (p *fsPutCmd) Run(ctx context.Context, c *console) error {
	from, to, err := fromTo(p.Paths)
	if err != nil {
		return err
	}
	p.resume = p.Resume
	if len(from) == 1 && from[0] == "-" {
		return p.putStream(ctx, c, to, os.Stdin)
	}
	return p.copyAll(ctx, c, places(from, false), place{true, to})
}

type fsGetCmd struct {
	transferFlags
	Paths []string `arg:"" name:"from-then-to" help:"Files and directories of the drive; last, the local path, or the directory to put them into."`
}

// Run fetches.
func (g *fsGetCmd) Run(ctx context.Context, c *console) error {
	from, to, err := fromTo(g.Paths)
	if err != nil {
		return err
	}
	return g.copyAll(ctx, c, places(from, true), place{false, to})
}

// fromTo splits what is to be copied or moved from where to: flags and arguments allow
// for a list only as the last one.
func fromTo(args []string) (from []string, to string, err error) {
	last := len(args) - 1
	if last < 1 {
		return nil, "", usageError{errors.New("name what, and last where to")}
	}
	return args[:last], args[last], nil
}

type fsCopyCmd struct {
	transferFlags
	Paths []string `arg:"" name:"from-then-to" help:"What to copy, and last where to: local paths, or lethe:/a/b."`
}

// Help tells paths apart.
func (*fsCopyCmd) Help() string {
	return "lethe:/a/b is a path of the drive, everything else a local one. Within the drive no bytes travel."
}

// Run copies in the direction that its arguments have.
func (f *fsCopyCmd) Run(ctx context.Context, c *console) error {
	args, to, err := fromTo(f.Paths)
	if err != nil {
		return err
	}
	from := make([]place, len(args))
	for i, arg := range args {
		from[i] = place{strings.HasPrefix(arg, onDrive), arg}
		if from[i].drive != from[0].drive {
			return usageError{errors.New("what is copied is local or of the drive, not both")}
		}
	}
	return f.copyAll(ctx, c, from, place{strings.HasPrefix(to, onDrive), to})
}

// place is an argument: a path of the drive, or a local one.
type place struct {
	drive bool
	arg   string
}

func places(args []string, drive bool) []place {
	out := make([]place, len(args))
	for i, arg := range args {
		out[i] = place{drive, arg}
	}
	return out
}

// base is the name that a source keeps when it goes into a directory; empty for one that
// stands for what is in it.
func (p place) base() string {
	name := filepath.Base(p.arg)
	if p.drive {
		name = path.Base(strings.TrimPrefix(p.arg, onDrive))
	}
	if name == "." || name == ".." || name == "/" || name == string(filepath.Separator) {
		return ""
	}
	return name
}

// copyAll copies sources to one place. Like cp, it copies into a directory that is there,
// and makes the place what a single source is otherwise.
func (f *transferFlags) copyAll(ctx context.Context, c *console, from []place, to place) error {
	if !to.drive && !from[0].drive {
		return usageError{errors.New("neither side is of the drive: write lethe:/a/b for a path there")}
	}
	for _, p := range append([]place{to}, from...) {
		if p.drive {
			if _, err := drivePath(p.arg); err != nil {
				return err
			}
		}
	}
	drive, err := f.drive()
	if err != nil {
		return err
	}
	into, err := to.isDirectory(ctx, drive, len(from))
	if err != nil {
		return err
	}
	t := newTransfer(ctx, c, drive, f)
	for _, source := range from {
		dest := to.path()
		if into && source.base() != "" {
			dest = to.join(source.base())
		}
		switch {
		case !source.drive:
			t.sendPath(source.arg, dest)
		case to.drive:
			t.copyPath(source.path(), dest)
		default:
			t.fetchPath(source.path(), dest)
		}
	}
	return t.end()
}

func (p place) path() string {
	if !p.drive {
		return p.arg
	}
	clean, err := drivePath(p.arg)
	if err != nil {
		return p.arg // it was looked at before
	}
	return clean
}

func (p place) join(name string) string {
	if p.drive {
		return below(p.path(), name)
	}
	return filepath.Join(p.arg, name)
}

// isDirectory reports whether what is copied goes into the place.
func (p place) isDirectory(ctx context.Context, drive client.Drive, sources int) (bool, error) {
	if p.drive {
		return isInto(ctx, drive, p.arg, sources)
	}
	meant := sources > 1 || strings.HasSuffix(p.arg, string(filepath.Separator))
	info, err := os.Stat(p.arg)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return meant, nil
	case err != nil:
		return false, err
	case meant && !info.IsDir():
		return false, fmt.Errorf("%s is no directory", p.arg)
	}
	return info.IsDir(), nil
}

// putStream sends what cannot be read twice.
func (f *transferFlags) putStream(ctx context.Context, c *console, arg string, in io.Reader) error {
	to, err := drivePath(arg)
	if err != nil {
		return err
	}
	drive, err := f.drive()
	if err != nil {
		return err
	}
	e, err := drive.Put(ctx, to, struct{ io.Reader }{in}, client.PutOptions{})
	switch {
	case err != nil:
		return err
	case f.JSON:
		return c.json(e)
	}
	return c.print("Sent %s to %s.", size(e.Size), printable(to))
}
