package purge

import "context"

// A view is purged by the walk of tables: it has no snapshots, so the levels DATA to
// LISTS are empty; its older metadata files, which view metadata does not name, come
// from the job row and stand in for the metadata log.
func (a *walk) asView() {
	a.root.Snapshots, a.root.Statistics = nil, nil
	a.root.Log = a.job.Files
}

// keepView ends the purge of a view that says gc.enabled=false: all its files are
// metadata, and stay.
func (a *walk) keepView(ctx context.Context) error {
	kept := map[string]struct{}{a.job.MetadataLocation: {}}
	for _, file := range a.job.Files {
		kept[file] = struct{}{}
	}
	a.progress.level(Older).Skipped = map[Reason]int64{GCDisabled: int64(len(kept))}
	return a.finish(ctx)
}
