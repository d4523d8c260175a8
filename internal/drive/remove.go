package drive

import (
	"context"
	"time"

	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// RemoveResult says what a delete did.
type RemoveResult struct {
	Path         string
	Inode        tree.Inode
	Job          int64  // 0: none was needed
	State        string // SUCCEEDED, or that of the job: PENDING in the trash
	Nodes        int64  // files and directories
	Files        int64
	Directories  int64
	Bytes        int64 // freed
	Transactions int64
	More         bool // a dry run stopped counting
	Plain        bool // not a tree: it is gone, or whole in the trash, whatever State says
	Elapsed      time.Duration
}

// RemoveOptions of Remove.
type RemoveOptions struct {
	IfMatch   string
	Actor     string
	RequestID string // for the log
}

// Remove deletes a file, a symbolic link or an empty directory. A file goes to the trash
// if there is one.
func (d *Drive) Remove(ctx context.Context, fs tree.FS, path string, opts RemoveOptions) (res RemoveResult, err error) {
	const op = "drive.Remove"
	began := time.Now()
	target, err := parse(op, path)
	if err != nil {
		return RemoveResult{}, err
	}
	if target.IsRoot() {
		return RemoveResult{}, isRoot(op)
	}
	defer func() {
		req := removal.Request{FS: fs, Path: target, Actor: opts.Actor, RequestID: opts.RequestID}
		counts := removal.Counts{Files: res.Files, Directories: res.Directories, Bytes: res.Bytes}
		d.removal.Log(ctx, req, removal.Result{Inode: res.Inode, Job: job.ID(res.Job), State: job.State(res.State), Counts: counts, Elapsed: time.Since(began)}, err)
	}()
	err = d.again(ctx, op, func() error {
		at, err := d.find(ctx, d.db, op, fs, target, false)
		if err != nil {
			return err
		}
		if err := require(op, opts.IfMatch, at.node, true, target); err != nil {
			return err
		}
		if at.node.Kind == tree.Directory {
			res, err = d.removeDirectory(ctx, fs, at, opts)
		} else {
			res, err = d.removeFile(ctx, fs, at, opts)
		}
		return err
	})
	if err != nil {
		return RemoveResult{}, err
	}
	res.Path, res.State, res.Transactions, res.Elapsed = target.String(), string(job.Succeeded), 1, time.Since(began)
	if res.Job != 0 {
		res.State = string(job.Pending) // it lies in the trash
	}
	res.Nodes, res.Plain = res.Files+res.Directories, true
	return res, nil
}

func (d *Drive) removeFile(ctx context.Context, fs tree.FS, at spot, opts RemoveOptions) (res RemoveResult, err error) {
	const op = "drive.Remove"
	err = d.tx(ctx, op, func(tx *sqldb.Tx) error {
		if err := d.after(d.tree.LockShared(ctx, tx, fs, at.dir), op, "locked"); err != nil {
			return err
		}
		if opts.IfMatch != "" { // the revision that was read may be an old one
			node, err := d.lockFile(ctx, tx, fs, at)
			if err != nil {
				return err
			}
			if err := require(op, opts.IfMatch, node, true, at.path); err != nil {
				return err
			}
		}
		freed, id, err := d.removal.RemoveFile(ctx, tx, fs, at.node, at.path, opts.Actor)
		if err := d.after(err, op, "removed"); err != nil {
			return err
		}
		res = RemoveResult{Inode: at.node.Inode, Job: int64(id), Files: 1, Bytes: freed.Bytes}
		return d.after(d.feed.Publish(ctx, tx, int64(fs), eventOf(feed.Remove, at.path, at.node, opts.Actor)), op, "published")
	}, d.confirmRemoved(fs, at))
	if err != nil {
		return RemoveResult{}, err
	}
	d.tree.TouchDirectory(ctx, fs, at.dir)
	return res, nil
}

func (d *Drive) removeDirectory(ctx context.Context, fs tree.FS, at spot, opts RemoveOptions) (RemoveResult, error) {
	const op = "drive.Remove"
	err := d.tx(ctx, op, func(tx *sqldb.Tx) error {
		if err := d.after(d.tree.LockShared(ctx, tx, fs, at.dir), op, "locked"); err != nil {
			return err
		}
		if err := d.after(d.tree.RemoveDentry(ctx, tx, fs, at.node), op, "cleared"); err != nil {
			return err
		}
		if err := d.takeEmpty(ctx, tx, op, fs, at); err != nil {
			return err
		}
		if err := d.after(d.removal.RemoveDirectories(ctx, tx, fs, []tree.Inode{at.node.Inode}), op, "removed"); err != nil {
			return err
		}
		return d.after(d.feed.Publish(ctx, tx, int64(fs), eventOf(feed.Remove, at.path, at.node, opts.Actor)), op, "published")
	}, append(d.impatient(), d.confirmRemoved(fs, at))...)
	if err != nil {
		return RemoveResult{}, d.contended(ctx, op, fs, at, err)
	}
	d.tree.TouchDirectory(ctx, fs, at.dir)
	return RemoveResult{Inode: at.node.Inode, Directories: 1}, nil
}

// takeEmpty takes a directory for the transaction alone and proves, in a later statement,
// that nothing is in it.
func (d *Drive) takeEmpty(ctx context.Context, tx *sqldb.Tx, op string, fs tree.FS, at spot) error {
	there, err := d.tree.LockDirectories(ctx, tx, fs, []tree.Inode{at.node.Inode})
	if err := d.after(err, op, "taken"); err != nil {
		return err
	}
	if len(there) == 0 {
		return tree.ErrMoved
	}
	empty, err := d.tree.Childless(ctx, tx, fs, at.node.Inode)
	if err := d.after(err, op, "looked"); err != nil {
		return err
	}
	if !empty {
		return notEmpty(op, at.path)
	}
	return nil
}

// emptyWait bounds the wait for a directory that is to be removed. On PostgreSQL those who
// hold it shared overtake one who waits for it alone, for as long as they come.
const emptyWait = time.Second

func (d *Drive) impatient() []sqldb.Option {
	if d.db.Dialect().Name != sqldb.Postgres {
		return nil
	}
	return []sqldb.Option{sqldb.LockWait(emptyWait)}
}

// contended turns a lock that was not had into what the caller wants to know: a directory
// that somebody is working in is most likely not empty.
func (d *Drive) contended(ctx context.Context, op string, fs tree.FS, at spot, err error) error {
	if fault.KindOf(err) != fault.Busy {
		return err
	}
	entries, readErr := d.tree.Slice(ctx, d.db, fs, at.node.Inode, "", 1)
	if readErr == nil && len(entries) > 0 {
		return notEmpty(op, at.path)
	}
	return err
}

// confirmRemoved reads an ambiguous commit back: by now the entry at the spot is another,
// or none.
func (d *Drive) confirmRemoved(fs tree.FS, at spot) sqldb.Option {
	return sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		there, err := d.readBack(ctx, tx, fs, at, at.node.Inode)
		return !there, err
	})
}

// RemoveAllOptions of RemoveAll.
type RemoveAllOptions struct {
	IfMatch   string
	Actor     string
	RequestID string
	Wait      time.Duration // for the sweep; 0 means not at all, negative the configured time
	Async     bool          // as a Wait of 0
	DryRun    bool          // count only
}

// RemoveAll deletes whatever path names with all that is below it: gone for everyone when
// it returns. State says whether the space is freed already. Links on the way are
// followed, the last one is not.
func (d *Drive) RemoveAll(ctx context.Context, fs tree.FS, path string, opts RemoveAllOptions) (RemoveResult, error) {
	const op = "drive.RemoveAll"
	target, err := parse(op, path)
	if err != nil {
		return RemoveResult{}, err
	}
	if target.IsRoot() {
		return RemoveResult{}, isRoot(op)
	}
	at, err := d.look(ctx, op, fs, path, false)
	if err != nil {
		return RemoveResult{}, err
	}
	req := removal.Request{FS: fs, Path: at.path, Wait: sweepWait(opts), DryRun: opts.DryRun, Actor: opts.Actor, RequestID: opts.RequestID}
	if opts.IfMatch != "" {
		req.Match = func(n tree.Node) bool { return matches(opts.IfMatch, etagOf(n)) }
	}
	done, err := d.removal.RemoveAll(ctx, req)
	if fault.Is(err, removal.CodeNoSuchPath) {
		err = fault.Wrap(op, fault.NotFound, CodeNotFound, err, "%s does not exist", target)
	}
	if err != nil {
		return RemoveResult{}, err
	}
	res := RemoveResult{
		Path: target.String(), Inode: done.Inode, Job: int64(done.Job), State: string(done.State), Nodes: done.Counts.Nodes(), Files: done.Counts.Files,
		Directories: done.Counts.Directories, Bytes: done.Counts.Bytes, Transactions: done.Counts.Transactions, More: done.More, Plain: done.Plain, Elapsed: done.Elapsed,
	}
	if !opts.DryRun {
		d.tree.TouchDirectory(ctx, fs, at.dir)
	}
	return res, nil
}

// sweepWait says how long to wait as removal.Request has it.
func sweepWait(opts RemoveAllOptions) time.Duration {
	switch {
	case opts.Async || opts.Wait == 0:
		return -1
	case opts.Wait < 0:
		return 0
	}
	return opts.Wait
}
