package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// resume is a purge whose server was killed on the way.
type resume struct {
	Files    int     `json:"files"`
	KilledAt int64   `json:"killed_at"`     // data files that the store had deleted
	Again    int64   `json:"deletes_again"` // data files that were sent more than once
	Percent  float64 `json:"again_percent"` // of all files
	Seconds  float64 `json:"seconds_after"` // from the restart to the end
}

// leak is a purge on a store that refuses a part of the keys of each request.
type leak struct {
	Percent int   `json:"percent"`
	Files   int   `json:"files"`
	Refused int64 `json:"refused"`
	Leaked  int64 `json:"leaked_files"`
	Objects int   `json:"objects_left"` // metadata, manifests
}

const pollStore = 2 * time.Millisecond

// resume kills the server when half of the files are gone, and starts it again.
func (b *bench) resume(ctx context.Context, sizes purgeSizes) (_ *resume, err error) {
	r := &resume{Files: sizes.Many}
	b.note("kill -9 after half of %d files", r.Files)
	s, err := startStore(ctx, 0, "--delete-delay", "20ms", "--track")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	args := []string{}
	if b.database != "" { // SQLite's next server knows that the one before is dead
		args = append(args, "--async-purge-heartbeat-timeout-ms", "5000")
	}
	p, err := b.startOn(ctx, s, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	job, err := p.dropLater(ctx, r.Files)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(pollStore)
	defer tick.Stop()
	for r.KilledAt < int64(r.Files/2) {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
		seen, err := s.stats(ctx)
		if err != nil {
			return nil, err
		}
		r.KilledAt = seen.DataGone
	}
	if err := p.kill(); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := p.launch(ctx); err != nil {
		return nil, err
	}
	if _, err := p.succeeded(ctx, job); err != nil {
		return nil, err
	}
	r.Seconds = time.Since(began).Seconds()
	seen, err := s.stats(ctx)
	if err != nil {
		return nil, err
	}
	if seen.DataGone != int64(r.Files) {
		return nil, fmt.Errorf("%s: %d files of %d are gone", job, seen.DataGone, r.Files)
	}
	r.Again = seen.DataKeys - seen.DataGone
	r.Percent = float64(r.Again) * 100 / float64(r.Files)
	return r, nil
}

// leaks purges on stores that refuse more and more.
func (b *bench) leaks(ctx context.Context, sizes purgeSizes) (all []leak, err error) {
	for _, percent := range []int{1, 5, 20} {
		b.note("%d %% of the deletes fail", percent)
		l, err := b.leak(ctx, leak{Percent: percent, Files: sizes.Few})
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

func (b *bench) leak(ctx context.Context, l leak) (_ leak, err error) {
	s, err := startStore(ctx, 0, "--delete-delay", "5ms", "--track", "--fail", strconv.Itoa(l.Percent))
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	p, err := b.startOn(ctx, s, "--async-purge-retry-base-ms", "100")
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	job, err := p.dropLater(ctx, l.Files)
	if err != nil {
		return l, err
	}
	if _, err := p.succeeded(ctx, job); err != nil {
		return l, err
	}
	seen, err := s.stats(ctx)
	l.Refused, l.Leaked, l.Objects = seen.Refused, int64(l.Files)-seen.DataGone, seen.Left
	return l, err
}

// dropLater drops a table asynchronously.
func (e *endpoint) dropLater(ctx context.Context, files int) (job string, err error) {
	if err := e.createNamespace(ctx); err != nil {
		return "", err
	}
	if err := e.register(ctx, "t", purgetest.Synthetic{Files: files, PerManifest: 5000}); err != nil {
		return "", err
	}
	job, _, err = e.drop(ctx, "t", true)
	return job, err
}
