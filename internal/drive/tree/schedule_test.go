package tree_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// What an operation of the world may answer, beside ok.
var (
	errNotFound = errors.New("not found")
	errNotEmpty = errors.New("not empty")
	errTaken    = errors.New("taken")
	errLoop     = errors.New("into itself")
	errTries    = errors.New("moved again and again")
)

// hook is called when an operation reaches a named point of its transaction.
type hook func(point string)

// left is what a negative control leaves out of the protocol.
type left struct {
	removeIfChildless bool // rmdir is one statement: DELETE … WHERE NOT EXISTS (a child)
	recount           bool // the link count is counted, not computed
	readBeforeLock    bool // the fast path reads the whole tree, then locks it
	sourceUnlocked    bool // rename does not hold the directory it takes from
	movesFree         bool // renames of directories do not exclude each other
}

// world is a drive whose operations are the steps of the tree in the order of the
// protocol, with a point between any two at which they can be stopped.
type world struct {
	*bench
	left
	missed  atomic.Int64 // set writes that did not hit what was read; each was rolled back
	waiting []*act       // for a lock, when they were last looked at
}

// op runs fn in a transaction until it does not see the tree move.
func (w *world) op(fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	for range 8 {
		err := w.try(fn)
		if !errors.Is(err, tree.ErrMoved) && !errors.Is(err, tree.ErrExists) {
			return err
		}
	}
	return errTries
}

// find resolves a path that must exist to its parent and itself.
func (w *world) find(ctx context.Context, tx *sqldb.Tx, text string) (parent, node tree.Node, err error) {
	r, err := w.Resolve(ctx, tx, w.fs, w.path(text))
	if err != nil {
		return parent, node, err
	}
	if !r.Exists() {
		return parent, node, errNotFound
	}
	return r.Chain[len(r.Chain)-2], r.Last(), nil
}

// spot resolves the parent of a path that must be free.
func (w *world) spot(ctx context.Context, tx *sqldb.Tx, text string) (parent tree.Node, err error) {
	r, err := w.Resolve(ctx, tx, w.fs, w.path(text))
	switch {
	case err != nil:
		return parent, err
	case r.Exists():
		return parent, errTaken
	case len(r.Missing) > 1 || r.Last().Kind != tree.Directory:
		return parent, errNotFound
	}
	return r.Last(), nil
}

func (w *world) make(h hook, text string) error {
	ids, err := w.NewIDs(w.t.Context(), w.fs, len(w.path(text).Names()))
	if err != nil {
		return err
	}
	return w.op(func(ctx context.Context, tx *sqldb.Tx) error {
		r, err := w.Resolve(ctx, tx, w.fs, w.path(text))
		if err != nil {
			return err
		}
		h("create.resolved")
		if r.Exists() {
			return errTaken
		}
		if err := w.LockShared(ctx, tx, w.fs, r.Last().Inode); err != nil {
			return err
		}
		h("create.locked")
		parent := r.Last().Inode
		var nodes []tree.Node
		for i, name := range r.Missing {
			kind := tree.Directory
			if i == len(r.Missing)-1 {
				kind = tree.File
			}
			nodes = append(nodes, tree.Node{Parent: parent, Name: name, Inode: tree.Inode(ids[i]), Kind: kind})
			parent = nodes[i].Inode
		}
		if err := w.InsertAll(ctx, tx, w.fs, nodes); err != nil {
			return err
		}
		h("create.inserted")
		return nil
	})
}

func (w *world) unlink(h hook, text string) error {
	return w.op(func(ctx context.Context, tx *sqldb.Tx) error {
		parent, file, err := w.find(ctx, tx, text)
		if err != nil {
			return err
		}
		h("unlink.resolved")
		if err := w.LockShared(ctx, tx, w.fs, parent.Inode); err != nil {
			return err
		}
		if err := w.RemoveDentry(ctx, tx, w.fs, file); err != nil {
			return err
		}
		h("unlink.removed")
		return w.drop(ctx, tx, []tree.Inode{file.Inode})
	})
}

// drop settles the link counts of files after their names, one each time, were removed.
func (w *world) drop(ctx context.Context, tx *sqldb.Tx, files []tree.Inode) error {
	if w.recount {
		for _, ino := range files {
			_, err := tx.Exec(ctx, `UPDATE inodes SET nlink = (SELECT COUNT(*) FROM file_nodes f WHERE f.fs_id = inodes.fs_id AND f.inode_id = inodes.inode_id)
				WHERE fs_id = ? AND inode_id = ?`, int64(w.fs), int64(ino))
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "DELETE FROM inodes WHERE fs_id = ? AND inode_id = ? AND nlink <= 0", int64(w.fs), int64(ino)); err != nil {
				return err
			}
		}
		return nil
	}
	uses := map[tree.Inode]int64{}
	for _, ino := range files {
		uses[ino]++
	}
	nodes, err := w.LockFiles(ctx, tx, w.fs, files)
	if err != nil {
		return err
	}
	if len(nodes) != len(uses) {
		return w.miss()
	}
	var gone []tree.Inode
	for _, n := range nodes {
		if n.NLink == uses[n.Inode] {
			gone = append(gone, n.Inode)
			continue
		}
		if err := w.all(1)(w.LowerLinks(ctx, tx, w.fs, []tree.Inode{n.Inode}, uses[n.Inode])); err != nil {
			return err
		}
	}
	return w.all(len(gone))(w.DeleteInodes(ctx, tx, w.fs, gone))
}

// all is for a set write, which must hit n rows.
func (w *world) all(n int) func(int64, error) error {
	return func(hit int64, err error) error {
		if err == nil && hit != int64(n) && !w.readBeforeLock {
			return w.miss()
		}
		return err
	}
}

// lockAll takes directories that must all be there.
func (w *world) lockAll(ctx context.Context, tx *sqldb.Tx, dirs []tree.Inode) error {
	there, err := w.LockDirectories(ctx, tx, w.fs, dirs)
	if err == nil && len(there) != len(dirs) {
		return w.miss()
	}
	return err
}

func (w *world) miss() error {
	w.missed.Add(1)
	return tree.ErrMoved
}

func (w *world) alias(h hook, from, to string) error {
	return w.op(func(ctx context.Context, tx *sqldb.Tx) error {
		_, file, err := w.find(ctx, tx, from)
		if err != nil {
			return err
		}
		parent, err := w.spot(ctx, tx, to)
		if err != nil {
			return err
		}
		h("link.resolved")
		if err := w.LockShared(ctx, tx, w.fs, parent.Inode); err != nil {
			return err
		}
		if err := w.Link(ctx, tx, w.fs, parent.Inode, w.path(to).Base(), file.Inode); err != nil {
			return err
		}
		h("link.counted")
		return nil
	})
}

func (w *world) rmdir(h hook, text string) error {
	return w.op(func(ctx context.Context, tx *sqldb.Tx) error {
		parent, dir, err := w.find(ctx, tx, text)
		if err != nil {
			return err
		}
		h("rmdir.resolved")
		if w.removeIfChildless {
			n, err := tx.Exec(ctx, "DELETE FROM inodes WHERE fs_id = ? AND inode_id = ? AND NOT EXISTS (SELECT 1 FROM file_nodes f WHERE f.fs_id = ? AND f.parent_id = ?)",
				int64(w.fs), int64(dir.Inode), int64(w.fs), int64(dir.Inode))
			if err == nil && n == 0 {
				err = errNotEmpty
			}
			if err != nil {
				return err
			}
			return w.RemoveDentry(ctx, tx, w.fs, dir)
		}
		if err := w.LockShared(ctx, tx, w.fs, parent.Inode); err != nil {
			return err
		}
		if err := w.RemoveDentry(ctx, tx, w.fs, dir); err != nil {
			return err
		}
		if err := w.lockAll(ctx, tx, []tree.Inode{dir.Inode}); err != nil {
			return err
		}
		h("rmdir.locked")
		childless, err := w.Childless(ctx, tx, w.fs, dir.Inode)
		if err == nil && !childless {
			err = errNotEmpty
		}
		if err != nil {
			return err
		}
		h("rmdir.childless")
		return w.all(1)(w.DeleteInodes(ctx, tx, w.fs, []tree.Inode{dir.Inode}))
	})
}

// renameDir moves a directory to a free name of another one.
func (w *world) renameDir(h hook, from, to string) error {
	return w.op(func(ctx context.Context, tx *sqldb.Tx) error {
		if !w.movesFree {
			if err := w.MoveLock(ctx, tx, w.fs, true); err != nil {
				return err
			}
		}
		source, dir, err := w.find(ctx, tx, from)
		if err != nil {
			return err
		}
		target, err := w.spot(ctx, tx, to)
		if err != nil {
			return err
		}
		below, visible, err := w.IsBelow(ctx, tx, w.fs, target.Inode, dir.Inode)
		switch {
		case err != nil:
			return err
		case below:
			return errLoop
		case !visible:
			return tree.ErrMoved
		}
		h("rename.resolved")
		parents := []tree.Inode{source.Inode, target.Inode}
		if w.sourceUnlocked {
			parents = parents[1:]
		}
		if err := w.LockShared(ctx, tx, w.fs, parents...); err != nil {
			return err
		}
		h("rename.locked")
		if err := w.Move(ctx, tx, w.fs, dir, target.Inode, w.path(to).Base()); err != nil {
			return err
		}
		h("rename.moved")
		return nil
	})
}

func (w *world) detach(h hook, text, job string) error {
	return w.op(func(ctx context.Context, tx *sqldb.Tx) error {
		if err := w.MoveLock(ctx, tx, w.fs, false); err != nil {
			return err
		}
		parent, dir, err := w.find(ctx, tx, text)
		if err != nil {
			return err
		}
		h("detach.resolved")
		if err := w.LockShared(ctx, tx, w.fs, parent.Inode); err != nil {
			return err
		}
		if err := w.Move(ctx, tx, w.fs, dir, tree.Trash, job); err != nil {
			return err
		}
		h("detach.moved")
		return nil
	})
}

// fast removes a whole small tree in one transaction, locked level by level.
func (w *world) fast(h hook, text string) error {
	return w.op(func(ctx context.Context, tx *sqldb.Tx) error {
		parent, root, err := w.find(ctx, tx, text)
		if err != nil {
			return err
		}
		h("fast.resolved")
		if err := w.LockShared(ctx, tx, w.fs, parent.Inode); err != nil {
			return err
		}
		if err := w.RemoveDentry(ctx, tx, w.fs, root); err != nil {
			return err
		}
		var dirs, files []tree.Inode
		for level := []tree.Inode{root.Inode}; len(level) > 0; {
			slices.Sort(level)
			if !w.readBeforeLock {
				if err := w.lockAll(ctx, tx, level); err != nil {
					return err
				}
			}
			h("fast.locked")
			children, err := w.Children(ctx, tx, w.fs, level, 1000)
			if err != nil {
				return err
			}
			h("fast.read")
			dirs, level = append(dirs, level...), nil
			for _, e := range children {
				if e.Dir {
					level = append(level, e.Inode)
				} else {
					files = append(files, e.Inode)
				}
			}
		}
		if w.readBeforeLock {
			if _, err := w.LockDirectories(ctx, tx, w.fs, dirs); err != nil {
				return err
			}
		}
		h("fast.known")
		if err := w.all(len(files))(w.DeleteFiles(ctx, tx, w.fs, tree.Range{Parents: dirs})); err != nil {
			return err
		}
		if err := w.all(len(dirs) - 1)(w.DeleteDirectoryDentries(ctx, tx, w.fs, dirs, dirs)); err != nil {
			return err
		}
		if err := w.all(len(dirs))(w.DeleteInodes(ctx, tx, w.fs, dirs)); err != nil {
			return err
		}
		return w.drop(ctx, tx, files)
	})
}

// act is an operation under way that stops at a point.
type act struct {
	w       *world
	reached chan struct{}
	release chan struct{}
	done    chan string
	answer  string
}

// begin starts an operation that will stop at the nth time of a point.
func (w *world) begin(point string, nth int, op func(hook) error) *act {
	a := &act{w: w, reached: make(chan struct{}), release: make(chan struct{}), done: make(chan string, 1)}
	go func() {
		n := 0
		err := op(func(at string) {
			if at != point {
				return
			}
			if n++; n == nth {
				close(a.reached)
				<-a.release
			}
		})
		if err == nil {
			a.done <- "ok"
		} else {
			a.done <- err.Error()
		}
	}()
	w.t.Cleanup(a.let)
	return a
}

// state waits until the operation stands at its point, has ended, or waits for a lock.
func (a *act) state() string {
	a.w.t.Helper()
	state := a.answer
	came := func() bool {
		select {
		case <-a.reached:
			state = "there"
		case a.answer = <-a.done:
			state = a.answer
		default:
		}
		return state != ""
	}
	a.w.waiting = slices.DeleteFunc(a.w.waiting, func(o *act) bool { return o == a || o.answer != "" || len(o.done) > 0 })
	if sqldbtest.Blocked(a.w.t, a.w.db, len(a.w.waiting), came) {
		a.w.waiting = append(a.w.waiting, a)
		return "blocked"
	}
	return state
}

// let lets the operation go on.
func (a *act) let() {
	select {
	case <-a.release:
	default:
		close(a.release)
	}
}

// on lets the operation go on and tells what becomes of it.
func (a *act) on() string {
	a.w.t.Helper()
	a.let()
	a.reached = nil
	return a.state()
}

// end lets the operation go on to its end.
func (a *act) end() string {
	a.w.t.Helper()
	a.let()
	if a.answer == "" {
		wait := time.NewTimer(2 * time.Minute)
		defer wait.Stop()
		select {
		case a.answer = <-a.done:
		case <-wait.C:
			a.w.t.Fatal("an operation does not end")
		}
	}
	return a.answer
}
