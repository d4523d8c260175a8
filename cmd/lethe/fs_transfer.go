package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/lethe-project/lethe/client"
)

// tally is what a transfer did.
type tally struct {
	Files       int64 `json:"files"`
	Directories int64 `json:"directories"`
	Links       int64 `json:"links"`
	Bytes       int64 `json:"bytes"`
	Skipped     int64 `json:"skipped"`
	Failed      int64 `json:"failed"`
}

// transfer moves files, several at once. What fails is told and counted, and stops
// nothing else; a server that cannot be reached any more ends it, as a signal does.
type transfer struct {
	console *console
	drive   client.Drive
	flags   *transferFlags

	ctx   context.Context //nolint:containedctx // of the command, which a transfer is
	stop  context.CancelCauseFunc
	steps chan func()
	after []func() // after all steps

	workers sync.WaitGroup
	pending sync.WaitGroup // steps that are queued or run
	meter   *meter
	begun   begunUploads

	mu    sync.Mutex
	tally tally
	out   error // of writing a line
}

func newTransfer(ctx context.Context, c *console, drive client.Drive, flags *transferFlags) *transfer {
	t := &transfer{console: c, drive: drive, flags: flags, steps: make(chan func())}
	t.ctx, t.stop = context.WithCancelCause(ctx)
	if c.terminal && !flags.JSON {
		t.meter = newMeter(c)
	}
	for range flags.Parallel {
		t.workers.Go(func() {
			for step := range t.steps {
				step()
				t.pending.Done()
			}
		})
	}
	return t
}

// do queues a step about a path, and waits while all workers are busy.
func (t *transfer) do(path string, step func(ctx context.Context) error) {
	if t.ctx.Err() != nil {
		return
	}
	t.pending.Add(1)
	t.steps <- func() {
		if t.ctx.Err() != nil {
			return
		}
		if err := step(t.ctx); err != nil {
			t.failed(path, err)
		}
	}
}

// later keeps something for the time when all steps are done.
func (t *transfer) later(step func()) { t.after = append(t.after, step) }

// failed tells and counts what went wrong with a path.
func (t *transfer) failed(path string, err error) {
	var op *net.OpError
	switch {
	case t.ctx.Err() != nil:
		return // it failed because all ends
	case errors.As(err, &op) && op.Op == "dial":
		t.stop(err)
		return
	}
	t.tell(path, "error", err.Error(), func(n *tally) { n.Failed++ })
}

// skipped tells and counts what is left out by a rule.
func (t *transfer) skipped(path, why string) {
	t.tell(path, "skipped", why, func(n *tally) { n.Skipped++ })
}

func (t *transfer) tell(path, what, text string, count func(*tally)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	count(&t.tally)
	if t.flags.JSON {
		if err := t.console.json(map[string]string{"path": path, what: text}); err != nil && t.out == nil {
			t.out = err
		}
		return
	}
	line := fmt.Sprintf("lethe: %s: %s", printable(path), text)
	if what == "skipped" {
		line = fmt.Sprintf("lethe: %s: left out: %s", printable(path), text)
	}
	if t.meter != nil {
		t.meter.line(line)
		return
	}
	t.console.note("%s", line)
}

// count adds what was done.
func (t *transfer) count(add tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tally.Files += add.Files
	t.tally.Directories += add.Directories
	t.tally.Links += add.Links
	t.tally.Bytes += add.Bytes
	if t.meter != nil {
		t.meter.files(add.Files + add.Links)
	}
}

// expect tells the person who watches that a file of so many bytes will come.
func (t *transfer) expect(bytes int64) {
	if t.meter != nil {
		t.meter.expect(bytes)
	}
}

// moved tells that bytes went over the wire; less than 0 that they go again.
func (t *transfer) moved(bytes int64) {
	if t.meter != nil {
		t.meter.moved(bytes)
	}
}

// end waits for everything and tells what was done.
func (t *transfer) end() error {
	t.pending.Wait()
	for _, step := range slices.Backward(t.after) { // children before their parents
		step()
	}
	t.pending.Wait()
	close(t.steps)
	t.workers.Wait()
	if t.meter != nil {
		t.meter.end()
	}
	cause := context.Cause(t.ctx)
	t.stop(nil)
	if err := t.report(); err != nil {
		return err
	}
	switch n := t.tally; {
	case errors.Is(cause, errInterrupted):
		return hintError{cause, "What has arrived stays; every file is whole or not there."}
	case cause != nil:
		return cause
	case t.out != nil:
		return t.out
	case n.Failed > 0:
		return fmt.Errorf("%s failed", counted(n.Failed, "path", "paths"))
	}
	return nil
}

func (t *transfer) report() error {
	n := t.tally
	if t.flags.JSON {
		return t.console.json(n)
	}
	parts := []string{counted(n.Files, "file", "files") + ", " + size(n.Bytes)}
	for _, p := range []struct {
		n         int64
		one, many string
	}{
		{n.Directories, "directory", "directories"},
		{n.Links, "link", "links"},
		{n.Skipped, "left out", "left out"},
		{n.Failed, "failed", "failed"},
	} {
		if p.n > 0 {
			parts = append(parts, counted(p.n, p.one, p.many))
		}
	}
	return t.console.print("Copied %s.", strings.Join(parts, ", "))
}

// errDirectory refuses a directory without -r.
var errDirectory = errors.New("it is a directory: add -r to copy it with everything in it")
