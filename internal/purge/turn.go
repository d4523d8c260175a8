package purge

import (
	"context"
	"io"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/pace"
)

// pausedSession gives the turn back before it waits for the database.
type pausedSession struct {
	Session
	turn *pace.Section
}

// Save stores where the job stands.
func (s pausedSession) Save(ctx context.Context, at job.Point, progress any) error {
	s.turn.Pause()
	return s.Session.Save(ctx, at, progress)
}

// pausedHost does the same for what a walk asks in its middle.
type pausedHost struct {
	Host
	turn *pace.Section
}

// Whose says to whom directories belong.
func (h pausedHost) Whose(ctx context.Context, j Job, dirs []blob.Location) ([]Owner, error) {
	h.turn.Pause()
	return h.Host.Whose(ctx, j, dirs)
}

// Adopt makes locations the job's own.
func (h pausedHost) Adopt(ctx context.Context, j Job, at []blob.Location) ([]blob.Location, error) {
	h.turn.Pause()
	return h.Host.Adopt(ctx, j, at)
}

// pausedReader gives the turn back before it waits for the store.
type pausedReader struct {
	io.Reader
	turn *pace.Section
}

// Read reads on.
func (r pausedReader) Read(p []byte) (int, error) {
	r.turn.Pause()
	return r.Reader.Read(p)
}
