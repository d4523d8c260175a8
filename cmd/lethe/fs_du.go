package main

import (
	"context"
	"strings"

	"github.com/lethe-project/lethe/client"
)

type fsUsageCmd struct {
	remote
	Path      string `arg:"" optional:"" default:"/" help:"Directory or file."`
	Depth     int    `name:"depth" short:"d" default:"-1" help:"Show directories down to this depth only; -1 shows all." placeholder:"N"`
	Summarize bool   `name:"summarize" short:"s" help:"Show the sum only, as --depth 0 does."`
}

// sum is what a directory holds, all below it included.
type sum struct {
	Path        string `json:"path"`
	Bytes       int64  `json:"bytes"`
	Files       int64  `json:"files"`
	Directories int64  `json:"directories"` // itself included
}

// Run sums up, children before their parents. A file with several names counts once, where
// it is met first.
func (d *fsUsageCmd) Run(ctx context.Context, c *console) error {
	p, err := drivePath(d.Path)
	if err != nil {
		return err
	}
	drive, err := d.drive()
	if err != nil {
		return err
	}
	e, err := drive.Stat(ctx, p)
	if err != nil {
		return missingPath(err, p)
	}
	if d.Summarize {
		d.Depth = 0
	}
	s := &summing{cmd: d, c: c, drive: drive, seen: map[int64]bool{}}
	if !e.IsDir() {
		return s.show(sum{Path: p, Bytes: e.Size, Files: 1})
	}
	_, err = s.directory(ctx, p, 0)
	return err
}

type summing struct {
	cmd   *fsUsageCmd
	c     *console
	drive client.Drive
	seen  map[int64]bool // inodes with several names
}

func (s *summing) directory(ctx context.Context, dir string, depth int) (sum, error) {
	total := sum{Path: dir, Directories: 1}
	for e, err := range s.drive.List(ctx, dir) {
		if err != nil {
			if depth > 0 && client.IsNotFound(err) {
				break // it was removed meanwhile
			}
			return total, err
		}
		if e.IsDir() {
			sub, err := s.directory(ctx, below(dir, e.Name), depth+1)
			if err != nil {
				return total, err
			}
			total.Bytes, total.Files, total.Directories = total.Bytes+sub.Bytes, total.Files+sub.Files, total.Directories+sub.Directories
			continue
		}
		total.Files++
		if e.NLink > 1 {
			if s.seen[e.Inode] {
				continue
			}
			s.seen[e.Inode] = true
		}
		if e.Type == client.FileType {
			total.Bytes += e.Size
		}
	}
	if s.cmd.Depth >= 0 && depth > s.cmd.Depth {
		return total, nil
	}
	return total, s.show(total)
}

func (s *summing) show(total sum) error {
	if s.cmd.JSON {
		return s.c.json(total)
	}
	text := size(total.Bytes)
	return s.c.print("%s%s  %10s files  %s", strings.Repeat(" ", max(0, 10-len(text))), text, count(total.Files), printable(total.Path))
}
