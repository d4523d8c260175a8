package main

import (
	"fmt"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// meter is the bar of a transfer. Its end moves away as long as files are found.
type meter struct {
	progress *mpb.Progress
	bar      *mpb.Bar
	total    atomic.Int64 // bytes that are known to come
	done     atomic.Int64 // files
}

func newMeter(c *console) *meter {
	m := &meter{progress: mpb.New(mpb.WithOutput(c.err), mpb.WithAutoRefresh(), mpb.WithWidth(80))}
	m.bar = m.progress.New(0, mpb.BarStyle(),
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return counted(m.done.Load(), "file", "files") + " " })),
		mpb.AppendDecorators(
			decor.Any(func(s decor.Statistics) string { return size(s.Current) + " / " + size(m.total.Load()) + " " }),
			decor.AverageSpeed(decor.SizeB1000(0), "% .1f"),
		),
	)
	return m
}

func (m *meter) expect(bytes int64) {
	// One more than there are: a bar that is full is over.
	m.bar.SetTotal(m.total.Add(bytes)+1, false)
}

func (m *meter) moved(bytes int64) { m.bar.IncrInt64(bytes) }

func (m *meter) files(n int64) { m.done.Add(n) }

// line writes a line above the bar.
func (m *meter) line(text string) {
	_, _ = fmt.Fprintln(m.progress, text) // nowhere else to say so
}

func (m *meter) end() {
	m.bar.SetTotal(-1, true)
	m.progress.Wait()
}
