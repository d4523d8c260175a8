package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/lethe-project/lethe/client"
)

// await waits for a job and tells its end; anything but SUCCEEDED is an error. A person
// at a terminal sees it work, a file gets a line whenever it has come further.
func (c *console) await(ctx context.Context, jobs client.Jobs, name string, asJSON bool) error {
	opts := client.WaitOptions{Every: time.Second}
	done := func() {}
	switch {
	case asJSON:
		opts.Every = 0
	case c.terminal:
		opts.Update, done = c.spinner(name)
	default:
		opts.Every = 5 * time.Second
		opts.Update = c.lines()
	}
	job, err := jobs.Wait(ctx, name, opts)
	done()
	switch {
	case client.IsNotFound(err):
		return hintError{err, "See which jobs there are: lethe job ls"}
	case err != nil:
		return hintError{err, "The server goes on. Wait again with lethe job wait " + name}
	}
	if asJSON {
		err = c.json(job)
	} else if c.terminal {
		err = c.print("%s", line(job))
	}
	if err != nil {
		return err
	}
	if job.State != client.Succeeded {
		return jobFailed(job)
	}
	return nil
}

// lines prints the job when its line has changed.
func (c *console) lines() func(client.Job) {
	last := ""
	return func(job client.Job) {
		if text := line(job); text != last {
			last = text
			_ = c.print("%s", text) // await's own output fails in the same way
		}
	}
}

// spinner shows the job on a line that moves. How many files there are is known only at
// the end, so there is no bar that could be full.
func (c *console) spinner(name string) (update func(client.Job), done func()) {
	var text atomic.Value
	text.Store(name)
	progress := mpb.New(mpb.WithOutput(c.err), mpb.WithAutoRefresh())
	bar := progress.New(0, mpb.SpinnerStyle(), mpb.BarWidth(1), mpb.AppendDecorators(
		decor.Any(func(decor.Statistics) string { s, _ := text.Load().(string); return s }),
	))
	update = func(job client.Job) { text.Store(line(job)) }
	return update, func() {
		bar.Abort(true)
		progress.Wait()
	}
}
