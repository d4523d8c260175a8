package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lethe-project/lethe/client"
)

type fsRemoveCmd struct {
	remote
	Paths     []string `arg:"" help:"What to delete." placeholder:"PATH"`
	Recursive bool     `name:"recursive" short:"r" help:"Delete directories with everything in them."`
	Force     bool     `name:"force" short:"f" help:"What is not there is no error."`
	Async     bool     `name:"async" help:"With -r: return when the path is gone; its space is freed afterwards."`
	DryRun    bool     `name:"dry-run" help:"With -r: count what would be deleted."`
}

// Validate refuses flags that mean nothing.
func (r *fsRemoveCmd) Validate() error {
	if (r.Async || r.DryRun) && !r.Recursive {
		return errors.New("--async and --dry-run are about trees: they need -r")
	}
	return nil
}

// Run deletes.
func (r *fsRemoveCmd) Run(ctx context.Context, c *console) error {
	paths, err := drivePaths(r.Paths)
	if err != nil {
		return err
	}
	drive, err := r.drive()
	if err != nil {
		return err
	}
	return c.each(ctx, paths, func(p string) error {
		err := r.one(ctx, c, drive, p)
		if r.Force && client.IsNotFound(err) {
			return nil
		}
		return err
	})
}

func (r *fsRemoveCmd) one(ctx context.Context, c *console, drive client.Drive, p string) error {
	if !r.Recursive {
		done, err := drive.Remove(ctx, p, client.ChangeOptions{})
		switch {
		case errors.Is(err, client.ErrDirectoryNotEmpty):
			return hintError{err, "Add -r to delete it with everything in it."}
		case err != nil:
			return missingPath(err, p)
		}
		return r.report(c, p, done)
	}
	progress, over := c.deleting(r.JSON)
	done, err := drive.RemoveAll(ctx, p, client.RemoveAllOptions{Return: r.Async, DryRun: r.DryRun, Progress: progress})
	over()
	var failed *client.JobFailedError
	switch {
	case err == nil:
		return r.report(c, p, done)
	case errors.As(err, &failed):
		return treeFailed(failed.Job)
	case done.Job != "": // the path is gone; only the wait ended
		return hintError{err, fmt.Sprintf("%s is gone, and the server goes on to free its space. Watch it with lethe job wait %[2]s; stop it with lethe job cancel %[2]s.", printable(p), done.Job)}
	case errors.Is(err, errInterrupted):
		return hintError{err, "If the server had accepted the delete, it goes on by itself: see lethe job ls --kind delete, and stop it with lethe job cancel."}
	}
	return missingPath(err, p)
}

// treeFailed says what to do about the delete of a tree that did not end well.
func treeFailed(job client.Job) error {
	if job.State == client.Cancelled {
		return hintError{
			fmt.Errorf("%s was cancelled; what it had not deleted is in the trash", job.Job),
			fmt.Sprintf("Finish it with lethe job retry %[1]s, or lethe fs trash empty %[1]s.", job.Job),
		}
	}
	return jobFailed(job)
}

// deleting shows the job of a delete to a person, from when there is one.
func (c *console) deleting(asJSON bool) (progress func(client.Job), over func()) {
	over = func() {}
	if asJSON || !c.terminal {
		return nil, over
	}
	var update func(client.Job)
	progress = func(job client.Job) {
		if update == nil {
			c.note("The path is gone; %s frees its space.", job.Job)
			update, over = c.spinner(job.Job)
		}
		update(job)
	}
	return progress, func() { over() }
}

func (r *fsRemoveCmd) report(c *console, p string, done client.Removed) error {
	if r.JSON {
		return c.json(done)
	}
	p = printable(p)
	what := counted(done.Files, "file", "files") + ", " + counted(done.Directories, "directory", "directories") + ", " + size(done.Bytes)
	switch {
	case r.DryRun && done.More:
		return c.print("Would delete %s: more than %s.", p, what)
	case r.DryRun:
		return c.print("Would delete %s: %s.", p, what)
	case done.InTrash:
		return c.print("Moved %s to the trash. Bring it back with lethe fs trash restore %s", p, done.Job)
	case done.Job != "" && done.State != client.Succeeded:
		return c.print("Deleted %s. %s frees its space (%s).", p, done.Job, done.State)
	case done.Nodes <= 1:
		return c.print("Deleted %s.", p)
	}
	return c.print("Deleted %s: %s.", p, what)
}

func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}
