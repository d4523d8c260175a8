package removal

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// Request is a delete of a path and of all that is below it.
type Request struct {
	FS        tree.FS
	Path      tree.Path
	Match     func(tree.Node) bool // a condition on what the path names; nil: none
	Wait      time.Duration        // how long the sweep is waited for; 0 is Config.Wait, negative not at all
	DryRun    bool                 // count only
	Actor     string
	RequestID string // for the log

	operation string     // identity of this delete
	meant     tree.Inode // the directory that the path named first; 0 for none
}

// Result says what a delete did.
type Result struct {
	Path    string
	Inode   tree.Inode
	Job     job.ID // 0: none was needed
	State   job.State
	Plain   bool // it was a file or symbolic link: it is gone, or whole in the trash
	Counts  Counts
	More    bool // a dry run stopped counting
	Elapsed time.Duration
}

// RemoveAll deletes whatever the path names. A small tree goes in one transaction. Any
// other is gone for everyone when its job is committed, and RemoveAll waits for the sweep
// as the request says: the result's State then tells how far it is. With a trash it goes
// there. The root is fault.Invalid, a missing path fault.NotFound, a condition that does
// not hold fault.Precondition, contention that outlasts the tries ErrDeleteIncomplete.
func (m *Removal) RemoveAll(ctx context.Context, req Request) (res Result, err error) {
	began := time.Now()
	req.operation = uuid.NewString()
	defer func() {
		res.Path, res.Elapsed = req.Path.String(), time.Since(began)
		if errors.Is(err, ErrDeleteIncomplete) {
			m.metrics.incomplete.WithLabelValues("lock_wait").Inc()
		}
		if !req.DryRun {
			m.Log(ctx, req, res, err)
		}
	}()
	if req.Path.IsRoot() {
		return res, fault.New("removal.RemoveAll", fault.Invalid, CodeRoot, "the root of a drive cannot be deleted")
	}
	at, err := m.target(ctx, m.db, req)
	if err != nil {
		return res, err
	}
	node := at.Last()
	res.Inode = node.Inode
	if req.DryRun {
		res.Counts, res.More, err = m.dryRun(ctx, req.FS, node)
		return res, err
	}
	if node.Kind != tree.Directory {
		return m.removeFile(ctx, req, res)
	}
	req.meant = node.Inode // another one under its name was made since: this one is gone
	if m.cfg.TrashRetention <= 0 {
		done, err := m.tryFast(ctx, req, node, &res)
		if err != nil || done {
			return res, err
		}
	}
	if err := m.again(ctx, func() (err error) { res.Job, node, err = m.detach(ctx, req); return err }); err != nil {
		res.Job = 0
		return res, err
	}
	res.Inode, res.State = node.Inode, job.Pending
	if m.cfg.TrashRetention > 0 {
		return res, nil // nothing to wait for
	}
	return m.await(ctx, req, res)
}

// await waits for the sweep. What it cannot learn does not make a delete fail that is
// committed.
func (m *Removal) await(ctx context.Context, req Request, res Result) (Result, error) {
	wait := req.Wait
	if wait == 0 {
		wait = m.cfg.Wait
	}
	if wait < 0 {
		m.runner.Wake()
		return res, nil
	}
	_, waited := m.runner.Wait(ctx, res.Job, wait)
	// The request may be over by now; its answer is not worth more than this look.
	free, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	j, err := m.readJob(free, m.db, res.Job)
	if err != nil {
		m.log.WarnContext(ctx, "delete not watched", "job", m.jobs.Name(res.Job), "error", errors.Join(waited, err))
		return res, nil
	}
	res.State, res.Counts = j.State, j.Counts
	res.Counts.Transactions++ // the detach
	return res, nil
}

// tryFast reports whether the tree is gone.
func (m *Removal) tryFast(ctx context.Context, req Request, node tree.Node, res *Result) (bool, error) {
	// Counted before anything is locked: a big tree costs two reads more, not the locks.
	_, more, err := m.count(ctx, req.FS, node, m.cfg.BatchSize, nil)
	if err != nil || more {
		return false, err
	}
	var counts Counts
	err = m.again(ctx, func() (err error) { counts, err = m.fast(ctx, req, node); return err })
	switch {
	case errors.Is(err, errDetach), errors.Is(err, ErrDeleteIncomplete):
		return false, nil
	case err != nil:
		return false, err
	}
	res.Counts, res.State = counts, job.Succeeded
	m.metrics.nodes.Add(float64(counts.Nodes()))
	return true, nil
}

// removeFile is the plain delete of a file or symbolic link.
func (m *Removal) removeFile(ctx context.Context, req Request, res Result) (Result, error) {
	var parent tree.Inode
	err := m.again(ctx, func() error {
		return m.db.Tx(ctx, func(tx *sqldb.Tx) error {
			res.Job = 0
			at, err := m.target(ctx, tx, req)
			if err != nil {
				return err
			}
			node := at.Last()
			if node.Kind == tree.Directory {
				return noSuchPath(req) // the file was gone before that was made
			}
			if err := m.tree.LockShared(ctx, tx, req.FS, node.Parent); err != nil {
				return err
			}
			if node, err = m.stillMatches(ctx, tx, req, node); err != nil {
				return err
			}
			res.Inode, parent = node.Inode, node.Parent
			freed, id, err := m.removeFileIn(ctx, tx, req, node)
			if err != nil {
				return err
			}
			res.Job, res.Counts = id, Counts{Files: 1, Bytes: freed.Bytes, Transactions: 1}
			return m.feed.Publish(ctx, tx, int64(req.FS), feed.Event{
				Kind: feed.Remove, Parent: int64(node.Parent), Name: node.Name, Inode: int64(node.Inode), Revision: node.Revision, Path: req.Path.String(), Actor: req.Actor,
			})
		}, m.confirmFile(req, &parent, &res))
	})
	res.Plain, res.State = true, job.Succeeded
	if res.Job != 0 {
		res.State = job.Pending // it lies in the trash
	}
	return res, err
}

// stillMatches locks a file for a request with a condition, and asks it again: the revision
// that was read may be an old one.
func (m *Removal) stillMatches(ctx context.Context, tx *sqldb.Tx, req Request, node tree.Node) (tree.Node, error) {
	if req.Match == nil {
		return node, nil
	}
	held, err := m.tree.LockFiles(ctx, tx, req.FS, []tree.Inode{node.Inode})
	switch {
	case err != nil:
		return node, err
	case len(held) == 0:
		return node, tree.ErrMoved
	case !req.Match(held[0]):
		return node, unmatched(req)
	}
	held[0].Parent, held[0].Name = node.Parent, node.Name
	return held[0], nil
}

// confirmFile reads back a plain delete: by its job, or by the dentry that is not there.
func (m *Removal) confirmFile(req Request, parent *tree.Inode, res *Result) sqldb.Option {
	if m.cfg.TrashRetention > 0 {
		return m.confirm(req, parent, &res.Job)
	}
	return sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		if _, err := m.tree.LockFiles(ctx, tx, req.FS, []tree.Inode{res.Inode}); err != nil { // waits for one that is being decided
			return false, err
		}
		at, err := m.tree.Resolve(ctx, tx, req.FS, req.Path)
		return err == nil && (!at.Exists() || at.Last().Inode != res.Inode), err
	})
}

// RemoveFile is the step that takes one name of a file or symbolic link away, whose parent
// the transaction holds: into the trash if there is one (then the job's id is not 0, and
// Freed is what will be), else with all it owns. The event is the caller's.
func (m *Removal) RemoveFile(ctx context.Context, tx *sqldb.Tx, fs tree.FS, node tree.Node, path tree.Path, actor string) (Freed, job.ID, error) {
	return m.removeFileIn(ctx, tx, Request{FS: fs, Path: path, Actor: actor, operation: uuid.NewString()}, node)
}

func (m *Removal) removeFileIn(ctx context.Context, tx *sqldb.Tx, req Request, node tree.Node) (Freed, job.ID, error) {
	if m.cfg.TrashRetention > 0 {
		id, err := m.toTrash(ctx, tx, FileJob, req, node)
		return Freed{Bytes: frees(node)}, id, err
	}
	if err := m.tree.RemoveDentry(ctx, tx, req.FS, node); err != nil {
		return Freed{}, 0, err
	}
	freed, err := m.Unlink(ctx, tx, req.FS, map[tree.Inode]int64{node.Inode: 1})
	return freed, 0, err
}

// target resolves what the request means, now.
func (m *Removal) target(ctx context.Context, r sqldb.Reader, req Request) (tree.Resolved, error) {
	at, err := m.tree.Resolve(ctx, r, req.FS, req.Path)
	switch {
	case err != nil:
		return at, err
	case !at.Exists():
		return at, noSuchPath(req)
	case req.Match != nil && !req.Match(at.Last()):
		return at, unmatched(req)
	case req.meant != 0 && at.Last().Inode != req.meant:
		return at, noSuchPath(req)
	}
	return at, nil
}

func unmatched(req Request) error {
	return fault.New("removal.RemoveAll", fault.Precondition, CodePrecondition, "%s is not what If-Match names", req.Path)
}

func noSuchPath(req Request) error {
	return fault.New("removal.RemoveAll", fault.NotFound, CodeNoSuchPath, "%s does not exist", req.Path)
}

// again runs an operation until nothing moves under it. ErrDeleteIncomplete when that
// does not come to pass, or the database is too busy.
func (m *Removal) again(ctx context.Context, operation func() error) error {
	for try := 1; ; try++ {
		err := operation()
		switch {
		case fault.Is(err, "DatabaseBusy"):
			return incomplete(err)
		case !moved(err):
			return err
		case try == maxTries:
			return incomplete(err)
		}
		pause := min(time.Millisecond<<try, 100*time.Millisecond)
		t := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
}

// moved reports whether a transaction found something else than was read before it.
func moved(err error) bool {
	return errors.Is(err, tree.ErrMoved) || errors.Is(err, content.ErrChanged)
}

// incomplete is ErrDeleteIncomplete with its cause.
func incomplete(cause error) error {
	return errors.Join(ErrDeleteIncomplete, cause)
}
