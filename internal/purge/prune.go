package purge

import (
	"context"
	"errors"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/job"
)

// pruneWait bounds how long the directories of a batch are looked at after the job was
// told to stop.
const pruneWait = 5 * time.Second

// rememberedDirs bounds the exact set of directories that were counted, in bytes.
const rememberedDirs = 1 << 20

// pruner removes the directories that a purge empties and counts those that stay. Its
// user holds the lock of the progress.
type pruner struct {
	scope    *scope
	progress *Progress
	counted  *seen
}

func newPruner(s *scope, p *Progress) *pruner {
	d := &pruner{scope: s, progress: p, counted: newSeen(rememberedDirs)}
	for _, known := range p.Samples["directory"] {
		d.counted.add(known.Location)
	}
	return d
}

// prune removes the emptied directories of the keys, up to and including top, also when
// ctx is over: the keys are deleted, and count only after this. Directories that the
// storage refuses to remove are returned; no file of the table is in them. An error
// leaves open what has been removed.
func prune(ctx context.Context, dirs blob.DirPruner, keys []blob.Key, top blob.Key) (refused []*blob.Error, err error) {
	if errors.Is(context.Cause(ctx), job.ErrLeaseLost) {
		return nil, context.Cause(ctx) // another worker's by now
	}
	free, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		t := time.NewTimer(pruneWait)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-free.Done():
		}
	})()
	for _, err := range errorsIn(dirs.PruneDirs(free, keys, top)) {
		var refusal *blob.Error
		if !errors.As(err, &refusal) || refusal.Class.Outage() {
			return refused, err
		}
		refused = append(refused, refusal)
	}
	return refused, nil
}

// errorsIn takes a joined error apart.
func errorsIn(err error) []error {
	var joined interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &joined):
		return joined.Unwrap()
	}
	return []error{err}
}

// refused counts directories that stay, each once.
func (d *pruner) refused(bucket blob.Bucket, errs []*blob.Error) {
	for _, err := range errs {
		uri := d.scope.uri(bucket, err.Key)
		if d.counted.add(uri) {
			d.progress.Directories++
			d.progress.sample("directory", uri, err.Class.String())
		}
	}
}

// pruneRoot removes the directories above a root that an earlier attempt deleted.
func (a *walk) pruneRoot(ctx context.Context) error {
	obj, why, err := a.scope.judgeRoot(ctx, a.job.MetadataLocation)
	if err != nil || why != "" {
		return err
	}
	dirs, ok := obj.Bucket.(blob.DirPruner)
	top := a.topKey(obj)
	if !ok || top == "" {
		return nil
	}
	refused, err := prune(ctx, dirs, []blob.Key{obj.Key}, top)
	a.pruner.refused(obj.Bucket, refused)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
