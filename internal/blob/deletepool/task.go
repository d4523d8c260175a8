package deletepool

import (
	"context"

	"github.com/lethe-project/lethe/internal/blob"
)

// task is a batch on its way. One goroutine at a time works on it.
type task struct {
	ctx     context.Context // of the Submit call, whose batch it is
	batch   Batch
	results []blob.Result // one per key, Failed without an error until answered
	open    []int         // indexes of the keys that are still to be tried
	next    int           // into open: the keys before it were sent in this round
	tries   int           // rounds begun
	outage  bool          // every answer of this task so far was Unavailable
	err     error
}

func newTask(ctx context.Context, b Batch) *task {
	t := &task{
		ctx: ctx, batch: b, tries: 1, outage: true,
		results: make([]blob.Result, len(b.Keys)), open: make([]int, len(b.Keys)),
	}
	for i, key := range b.Keys {
		t.results[i].Key = key
		t.open[i] = i
	}
	return t
}

// chunk returns the indexes of the next request, no more than limit.
func (t *task) chunk(limit int) []int {
	return t.open[t.next:min(t.next+min(limit, blob.MaxDelete), len(t.open))]
}

// keys returns the keys with the given indexes.
func (t *task) keys(indexes []int) []blob.Key {
	if len(indexes) == len(t.batch.Keys) {
		return t.batch.Keys
	}
	keys := make([]blob.Key, len(indexes))
	for i, at := range indexes {
		keys[i] = t.batch.Keys[at]
	}
	return keys
}

// nextRound keeps the keys that a retry may mend and reports whether there are any.
func (t *task) nextRound() bool {
	left := t.open[:0]
	for _, at := range t.open {
		if retryable(t.results[at]) {
			left = append(left, at)
		}
	}
	t.open, t.next = left, 0
	return len(left) > 0
}

func retryable(r blob.Result) bool {
	if r.Outcome != blob.Failed {
		return false
	}
	class := blob.ClassOf(r.Err)
	return class != blob.Invalid && class != blob.NotSupported
}

// finish hands the results over. Keys that were never sent carry err.
func (t *task) finish(err error) {
	for i := range t.results {
		r := &t.results[i]
		if r.Outcome == blob.Failed && r.Err == nil {
			r.Err = &blob.Error{Op: "delete", Key: r.Key, Class: blob.Other, Err: err}
		}
	}
	if t.batch.Done != nil {
		t.batch.Done(t.results, err)
	}
}
