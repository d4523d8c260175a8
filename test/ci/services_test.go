package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestDownloadsAreTriedAgain(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name  string
		ctx   context.Context //nolint:containedctx // of the case
		pause time.Duration
		good  int // the first try that succeeds
		calls int
	}{
		{"at once", t.Context(), time.Hour, 1, 1},
		{"in the end", t.Context(), 0, fetchTries, fetchTries},
		{"never", t.Context(), 0, fetchTries + 1, fetchTries},
		{"interrupted", over, time.Hour, 2, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			down, calls := errors.New("down"), 0
			err := again(tt.ctx, tt.pause, func() error {
				if calls++; calls < tt.good {
					return down
				}
				return nil
			})
			if calls != tt.calls || errors.Is(err, down) != (calls < tt.good) {
				t.Errorf("%d calls, %v; want %d calls", calls, err, tt.calls)
			}
		})
	}
}
