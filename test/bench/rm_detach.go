package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/job"
)

// detachFigures say how long a delete takes until it is answered 202, of a small and of a
// large tree.
type detachFigures struct {
	Few       int     `json:"few_files"`
	Many      int     `json:"many_files"`
	FewTook   spread  `json:"few_milliseconds"`
	ManyTook  spread  `json:"many_milliseconds"`
	Ratio     float64 `json:"median_ratio"`
	FewSends  int64   `json:"few_statements"`
	ManySends int64   `json:"many_statements"`
}

// detaches deletes two trees again and again, in random order, where nobody sweeps: each is
// cancelled and restored before its next turn.
func (b *bench) detaches(ctx context.Context, sizes rmSizes, r *rmReport) (err error) {
	rooms, err := b.driveRooms(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rooms.close()) }()
	if r.Durability, err = durability(ctx, rooms.db); err != nil {
		return err
	}
	b.note("detach of %d and of %d files", sizes.Few, sizes.Many)
	f := &detachFigures{Few: sizes.Few, Many: sizes.Many}
	for name, files := range map[string]int{"few": sizes.Few, "many": sizes.Many} {
		if _, err := rooms.planted(ctx, name, shape{Name: name, Files: files}); err != nil {
			return err
		}
	}
	var turns []string
	for range sizes.Detaches + 1 {
		pair := []string{"few", "many"}
		rand.Shuffle(2, func(i, j int) { pair[i], pair[j] = pair[j], pair[i] })
		turns = append(turns, pair...)
	}
	took, sent := map[string][]float64{}, map[string]int64{}
	for i, name := range turns {
		before, began := rooms.db.Statements(), time.Now()
		answer, err := rooms.do(ctx, http.MethodDelete, "/v1/fs/"+name+"?recursive=true", "", "Prefer", "respond-async")
		if err != nil {
			return err
		}
		if i >= 2 { // the first of each finds nothing prepared
			took[name] = append(took[name], millis(time.Since(began)))
			sent[name] = rooms.db.Statements() - before
		}
		if answer.Code != http.StatusAccepted {
			return fmt.Errorf("%d instead of 202: %s", answer.Code, answer.Body)
		}
		if err := rooms.back(ctx, answer.Header().Get("Location")); err != nil {
			return err
		}
	}
	f.FewTook, f.ManyTook, f.FewSends, f.ManySends = spreadOf(took["few"]), spreadOf(took["many"]), sent["few"], sent["many"]
	f.Ratio = ratio(f.ManyTook.P50, f.FewTook.P50)
	r.Detach = f
	r.Checks = append(r.Checks, atMost(fmt.Sprintf("median of detaches, %d files to %d", f.Many, f.Few), f.Ratio, 2))
	return nil
}

// back takes a delete back that nobody has begun with.
func (r *driveRooms) back(ctx context.Context, location string) error {
	id, ok := r.removal.Jobs().ParseName(strings.TrimPrefix(location, "/v1/jobs/"))
	if !ok {
		return fmt.Errorf("no job in %q", location)
	}
	if _, err := r.removal.Cancel(ctx, driveFS, id); err != nil {
		return err
	}
	return r.restore(ctx, id)
}

func (r *driveRooms) restore(ctx context.Context, id job.ID) error {
	_, err := r.removal.Restore(ctx, driveFS, id, nil, "bench")
	return err
}

func (f *detachFigures) text(w io.Writer) {
	fmt.Fprintf(w, "\nuntil 202\n  %8d files  %s  %d statements\n  %8d files  %s  %d statements\n  median ratio %.2f\n",
		f.Few, f.FewTook.text("ms"), f.FewSends, f.Many, f.ManyTook.text("ms"), f.ManySends, f.Ratio)
}

// sweepMemory is the most memory that a server had resident which deleted one tree.
type sweepMemory struct {
	Files  int    `json:"files"`
	Before spread `json:"before_mib"`
	Peak   spread `json:"peak_mib"` // one figure a server
}

func (m sweepMemory) text(w io.Writer) {
	fmt.Fprintf(w, "\nmemory of a server that deletes %d files\n  before     %s\n  VmHWM      %s\n", m.Files, m.Before.rangeText("MiB"), m.Peak.rangeText("MiB"))
}

// sweepMemory deletes trees of two sizes, each on a fresh server of its own.
func (b *bench) sweepMemory(ctx context.Context, sizes rmSizes, r *rmReport) error {
	trees := []int{sizes.Small, sizes.Many}
	before, peaks := make([][]float64, len(trees)), make([][]float64, len(trees))
	for run := range sizes.Runs {
		for i, files := range trees {
			b.note("memory, %d files, run %d of %d", files, run+1, sizes.Runs)
			low, high, err := b.sweptPeak(ctx, files)
			if err != nil {
				return err
			}
			before[i], peaks[i] = append(before[i], low), append(peaks[i], high)
		}
	}
	for i, files := range trees {
		r.Memory = append(r.Memory, sweepMemory{Files: files, Before: spreadOf(before[i]), Peak: spreadOf(peaks[i])})
	}
	r.Checks = append(r.Checks, atMost(fmt.Sprintf("VmHWM, %d files to %d", sizes.Many, sizes.Small), ratio(r.Memory[1].Peak.P50, r.Memory[0].Peak.P50), 1.2))
	return nil
}

func (b *bench) sweptPeak(ctx context.Context, files int) (before, peak float64, err error) {
	p, err := b.start(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.filled(ctx, map[string]shape{"tree": {Name: "memory", Files: files}}); err != nil {
		return 0, 0, err
	}
	if before, err = p.peak(); err != nil {
		return 0, 0, err
	}
	answer, err := p.send(ctx, http.MethodDelete, "/v1/fs/tree?recursive=true", map[string]string{"Prefer": "respond-async"}, nil)
	if err != nil {
		return 0, 0, err
	}
	if _, err := p.succeeded(ctx, strings.TrimPrefix(answer.Get("Location"), "/v1/jobs/")); err != nil {
		return 0, 0, err
	}
	peak, err = p.peak()
	return before, peak, err
}
