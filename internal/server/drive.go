package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// drives are the rooms of the drive, assembled.
type drives struct {
	drive     *drive.Drive
	tree      *tree.Tree
	content   *content.Store
	feed      *feed.Store
	removal   *removal.Removal
	collector *content.Collector
	sequencer *feed.Sequencer
}

// drivePlace is where the contents of drives lie: the setting, else beside the tables, so
// that servers which share the one share the other: DATA/drive by default, and the storage
// with -drive at its end where that was named.
func (s *Settings) drivePlace() (place, error) {
	if s.Drive.Storage != "" {
		if strings.Contains(s.Drive.Storage, "://") {
			return s.allowedPlace(s.Drive.Storage)
		}
		dir, err := directory(s.Drive.Storage)
		if err != nil {
			return place{}, err
		}
		root, err := blob.ParseLocation(dir)
		return place{root: root}, err
	}
	if s.Storage == "" {
		dir, err := filepath.Abs(s.Path("drive"))
		if err != nil {
			return place{}, err
		}
		root, err := blob.ParseLocation(dir)
		return place{root: root}, err
	}
	p, err := s.storagePlace()
	if err != nil {
		return place{}, err
	}
	if p.bucket == nil {
		return place{root: p.root + "-drive"}, nil
	}
	if p.bucket.Prefix == "" {
		return place{}, errors.New("the warehouse has all of its bucket: say with drive-storage where the contents of drives go")
	}
	beside := *p.bucket
	beside.Prefix = strings.TrimRight(beside.Prefix, "/") + "-drive"
	return place{root: p.root + "-drive", bucket: &beside}, nil
}

// openDrive builds the rooms of the drive over its storage.
func (s *server) openDrive(ctx context.Context, where place) error {
	bucket, _, closer, err := openBucket(ctx, where, s.log, s.tracing)
	if err != nil {
		return fmt.Errorf("server: drive storage %s: %w", where.root, err)
	}
	s.onClose(closer)
	set := &s.set.Drive
	d := &s.drives
	d.tree = tree.New(s.db)
	d.feed = feed.New(feed.Config{DB: s.db, Retention: set.EventRetention, Registerer: s.registry, Logger: s.log})
	d.content = content.New(content.Config{
		DB: s.db, Bucket: bucket, Prefix: "objects", InlineBytes: inline(set.InlineBytes), WriteTimeout: set.WriteTimeout, Grace: set.GCGrace, UploadExpiry: set.UploadExpiry,
		NewID: func(ctx context.Context, fs int64) (int64, error) { return d.tree.NewID(ctx, tree.FS(fs)) },
		Release: func(ctx context.Context, tx *sqldb.Tx, fs, bytes int64) error {
			return d.feed.Add(ctx, tx, fs, feed.Delta{Reserved: -bytes})
		},
		Registerer: s.registry, Logger: s.log, Step: stepOfContent(),
	})
	rm := &s.set.DriveDelete
	d.collector = content.NewCollector(d.content, content.CollectorConfig{
		Workers: rm.WorkerThreads, Batch: rm.BatchSize, Poll: rm.JobConfig().PollInterval, Lease: rm.JobConfig().HeartbeatTimeout,
	})
	if err := d.content.Claim(ctx, string(where.root)); err != nil {
		return fmt.Errorf("server: drive storage: %w", err)
	}
	d.removal = removal.New(removal.Config{
		DB: s.db, Tree: d.tree, Content: d.content, Feed: d.feed, Owner: owner(),
		BatchSize: rm.BatchSize, Wait: rm.Wait(), Job: s.tracing.jobs(rm.JobConfig()),
		TrashRetention: set.TrashRetention, ReconcileInterval: set.ReconcileInterval, FullInterval: set.ReconcileFullInterval,
		Registerer: s.registry, Logger: s.log, Step: stepOfDrive(),
	})
	d.drive = drive.New(drive.Config{
		DB: s.db, Tree: d.tree, Content: d.content, Feed: d.feed, Removal: d.removal, Logger: s.log, AuditInterval: set.ReconcileFullInterval,
		Steps: drive.Steps{At: stepOfFile()},
	})
	if s.db.Dialect().Name == sqldb.SQLite {
		// One server at a time: whoever was RUNNING died with the one before.
		if err := d.removal.ReclaimAll(ctx); err != nil {
			return err
		}
	}
	return d.drive.CreateDrive(ctx, tree.FS(s.tenants.Tenant()))
}

// inline turns the setting, where 0 keeps no content in SQL, into what content asks for.
func inline(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// start begins the work in the background.
func (d *drives) start(ctx context.Context) {
	d.sequencer = d.feed.StartSequencer(ctx)
	d.collector.Start() //nolint:contextcheck // it has a life of its own
	d.removal.Start()   //nolint:contextcheck // the same
}

// stop gives jobs and claims back and waits, or until ctx ends.
func (d *drives) stop(ctx context.Context) error {
	err := errors.Join(d.removal.Stop(ctx), d.collector.Stop(ctx))
	d.sequencer.Stop()
	return err
}
