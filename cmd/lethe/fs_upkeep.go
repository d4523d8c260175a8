package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/lethe-project/lethe/client"
)

type fsCheckCmd struct{ remote }

// Run compares counters. A difference is a failure.
func (k *fsCheckCmd) Run(ctx context.Context, c *console) error {
	drive, err := k.drive()
	if err != nil {
		return err
	}
	report, err := drive.Check(ctx)
	if err != nil {
		return err
	}
	if k.JSON {
		err = c.json(report)
	} else {
		err = showCheck(c, report)
	}
	if err == nil && !report.OK {
		err = errors.New("the drive's counters are not what is there")
	}
	return err
}

func showCheck(c *console, report client.DriveCheck) error {
	out := c.rows("", "COUNTED", "RECORDED")
	for _, row := range []struct {
		name              string
		counted, recorded int64
	}{
		{"bytes", report.Counted.Bytes, report.Recorded.Bytes},
		{"files", report.Counted.Files, report.Recorded.Files},
		{"reserved", report.Counted.Reserved, report.Recorded.Reserved},
	} {
		out.add(row.name, strconv.FormatInt(row.counted, 10), strconv.FormatInt(row.recorded, 10))
	}
	for _, problem := range report.Problems {
		out.add("problem", problem)
	}
	return out.flush()
}

type fsReconcileCmd struct {
	remote
	DryRun bool `name:"dry-run" help:"Count what would be repaired, and change nothing."`
}

// Run reconciles.
func (r *fsReconcileCmd) Run(ctx context.Context, c *console) error {
	drive, err := r.drive()
	if err != nil {
		return err
	}
	if !r.DryRun {
		err := drive.Reconcile(ctx)
		switch {
		case err != nil:
			return err
		case r.JSON:
			return c.json(map[string]bool{"scheduled": true})
		}
		return c.print("The server looks through the drive now, in the background, and repairs what it finds.")
	}
	found, err := drive.DryReconcile(ctx)
	if err != nil {
		return err
	}
	if r.JSON {
		return c.json(map[string]any{"found": found})
	}
	out := c.rows("ORPHANS", "FOUND")
	for _, class := range slices.Sorted(maps.Keys(found)) {
		out.add(class, count(found[class]))
	}
	return out.flush()
}

type fsScrubCmd struct {
	remote
	Repair bool `name:"repair" help:"Have objects that nothing names, and that are old enough, deleted."`
}

// Run scrubs, and shows everything that the server tells.
func (s *fsScrubCmd) Run(ctx context.Context, c *console) error {
	drive, err := s.drive()
	if err != nil {
		return err
	}
	found, err := drive.Scrub(ctx, s.Repair)
	if err != nil {
		return err
	}
	if s.JSON {
		return c.json(found)
	}
	out := c.rows()
	for _, name := range slices.Sorted(maps.Keys(found)) {
		var list []string
		switch raw := found[name]; {
		case json.Unmarshal(raw, &list) == nil:
			for _, item := range list {
				out.add(name, item)
			}
		default:
			out.add(name, string(raw))
		}
	}
	return out.flush()
}
