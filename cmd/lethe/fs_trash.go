package main

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/lethe-project/lethe/client"
)

type fsTrashCmd struct {
	List    fsTrashListCmd    `cmd:"" name:"ls" help:"List what was deleted and is still there, newest first."`
	Restore fsTrashRestoreCmd `cmd:"" help:"Bring something back."`
	Empty   fsTrashEmptyCmd   `cmd:"" help:"Delete for good: one thing, or everything with --all."`
}

type fsTrashListCmd struct{ remote }

// Run lists the trash.
func (t *fsTrashListCmd) Run(ctx context.Context, c *console) error {
	drive, err := t.drive()
	if err != nil {
		return err
	}
	out := c.rows()
	if !t.JSON {
		out.add("ID", "TYPE", "STATE", "SIZE", "DELETED", "BY", "UNTIL", "PATH")
	}
	for item, err := range drive.Trash().List(ctx) {
		if err != nil {
			return err
		}
		if t.JSON {
			if err := c.json(item); err != nil {
				return err
			}
			continue
		}
		until, bytes := "", "-"
		if item.Until != nil {
			until = moment(*item.Until)
		}
		if item.Size != nil {
			bytes = size(*item.Size)
		}
		out.add(item.ID, strings.ToLower(item.Kind), trashState(item), bytes, moment(item.DeletedAt), item.DeletedBy, until, item.Path)
	}
	return out.flush()
}

func trashState(item client.Trashed) string {
	switch {
	case item.Restorable && item.State != client.Failed:
		return "restorable"
	case item.Partial:
		return "partial"
	}
	return strings.ToLower(string(item.State))
}

const trashHint = "See what there is: lethe fs trash ls"

type fsTrashRestoreCmd struct {
	remote
	ID string `arg:"" help:"What to bring back, such as delete-7."`
	To string `name:"to" help:"Another path than where it was." placeholder:"PATH"`
}

// Run restores.
func (t *fsTrashRestoreCmd) Run(ctx context.Context, c *console) error {
	to := ""
	if t.To != "" {
		var err error
		if to, err = drivePath(t.To); err != nil {
			return err
		}
	}
	drive, err := t.drive()
	if err != nil {
		return err
	}
	back, err := drive.Trash().Restore(ctx, t.ID, to)
	switch {
	case client.CodeOf(err) == "PathExists":
		return hintError{err, "Restore it to another path with --to."}
	case client.CodeOf(err) == "NoSuchPath" && to != "":
		return hintError{err, "Make the directory first: lethe fs mkdir -p " + shell(path.Dir(to))}
	case client.CodeOf(err) == "NoSuchPath":
		return hintError{err, "The directory that it was in is gone: restore it to another path with --to."}
	case client.IsNotFound(err):
		return hintError{err, trashHint}
	case err != nil:
		return err
	case t.JSON:
		return c.json(back)
	}
	return c.print("Restored %s.", printable(back.Path))
}

type fsTrashEmptyCmd struct {
	remote
	ID  string `arg:"" optional:"" help:"What to delete for good, such as delete-7."`
	All bool   `name:"all" help:"Everything in the trash."`
}

// Validate wants one of both: everything is never the default.
func (t *fsTrashEmptyCmd) Validate() error {
	if (t.ID == "") != t.All {
		return errors.New("name what to delete for good, or everything with --all")
	}
	return nil
}

// Run empties.
func (t *fsTrashEmptyCmd) Run(ctx context.Context, c *console) error {
	drive, err := t.drive()
	if err != nil {
		return err
	}
	if t.All {
		n, err := drive.Trash().EmptyAll(ctx)
		switch {
		case err != nil:
			return err
		case t.JSON:
			return c.json(map[string]int64{"emptied": n})
		}
		return c.print("%s of the trash will be deleted now.", counted(n, "item", "items"))
	}
	item, err := drive.Trash().Empty(ctx, t.ID)
	switch {
	case client.IsNotFound(err):
		return hintError{err, trashHint}
	case err != nil:
		return err
	case t.JSON:
		return c.json(item)
	}
	return c.print("%s will be deleted now. Watch it with lethe job wait %s", printable(item.Path), item.ID)
}
