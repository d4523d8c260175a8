package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// EventKind is what happened.
type EventKind string

// The kinds of events.
const (
	EventCreate EventKind = "create"
	EventWrite  EventKind = "write"
	EventAttrib EventKind = "attrib" // mode or tags
	EventRename EventKind = "rename"
	EventRemove EventKind = "remove"
	// EventReset says that everything at and below Path may have changed: look again. A
	// tree was deleted or restored there, or events were missed that the server no longer has.
	EventReset EventKind = "reset"
)

// Event is one change of the drive.
type Event struct {
	ID       int64     `json:"-"` // what to go on after; see EventOptions.After
	Kind     EventKind `json:"kind"`
	Path     string    `json:"path"`
	From     string    `json:"from,omitempty"`   // of a rename
	Parent   int64     `json:"parent,omitempty"` // inode of the directory
	Inode    int64     `json:"inode,omitempty"`
	Revision int64     `json:"revision,omitempty"`
	Actor    string    `json:"actor,omitempty"`
	At       time.Time `json:"at"`
}

// EventOptions of Events; the zero value means all that happens from now on.
type EventOptions struct {
	Path string // only what happens at and below it
	// After is the ID of the last event that was dealt with: the stream goes on behind it.
	// 0 begins with what happens next.
	After int64
	// Quiet is how long a stream may bring nothing, not even the server's heartbeat,
	// before another connection is made. 0 means 1 min.
	Quiet time.Duration
}

// Events follows what happens in the drive, without an end: it ends when the context
// does, when the loop is left, or with an error that trying again does not mend. A
// connection that breaks is made anew and goes on where it was, after a pause that grows;
// five requests in a row that bring nothing are an error.
func (d Drive) Events(ctx context.Context, opts EventOptions) iter.Seq2[Event, error] {
	if opts.Quiet <= 0 {
		opts.Quiet = time.Minute
	}
	return func(yield func(Event, error) bool) {
		s := &eventStream{d: d, opts: opts}
		if opts.After > 0 {
			s.last = strconv.FormatInt(opts.After, 10)
		}
		for failed := 0; ; {
			heard, err := s.follow(ctx, yield)
			switch {
			case errors.Is(err, errLeft):
				return
			case ctx.Err() != nil:
				yield(Event{}, fmt.Errorf("client: events: %w", context.Cause(ctx)))
				return
			}
			if heard {
				failed = 0
			}
			if failed++; failed >= maxRequests || !transient(err) {
				yield(Event{}, err)
				return
			}
			if err := sleep(ctx, pause(failed, err)); err != nil {
				yield(Event{}, fmt.Errorf("client: events: %w", err))
				return
			}
		}
	}
}

var (
	errLeft  = errors.New("client: the loop was left")
	errQuiet = errors.New("client: the event stream was silent for too long")
)

type eventStream struct {
	d    Drive
	opts EventOptions
	last string // id to go on after; empty at first
}

// follow reads one connection to its end. heard says that it brought something.
func (s *eventStream) follow(ctx context.Context, yield func(Event, error) bool) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(s.opts.Quiet, func() { cancel(errQuiet) })
	defer watch.Stop()

	r := request{method: http.MethodGet, path: "/v1/events", query: url.Values{}, header: map[string]string{"Accept": "text/event-stream"}}
	set(r.query, "path", s.opts.Path)
	if s.last != "" {
		r.header["Last-Event-ID"] = s.last
	}
	req, err := s.d.c.build(ctx, r, nil)
	if err != nil {
		return false, err
	}
	resp, err := s.d.c.send(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEventLine)
	var id, data string
	for lines.Scan() {
		watch.Reset(s.opts.Quiet)
		heard = true
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field { // WHATWG HTML, section 9.2.6
		case "id":
			id = value
		case "data":
			data += value
		case "":
			if lines.Text() != "" {
				continue // a comment
			}
			if id != "" {
				s.last = id
			}
			if data != "" {
				if err := s.event(data, yield); err != nil {
					return heard, err
				}
				watch.Reset(s.opts.Quiet) // the loop's own time does not count
			}
			data = ""
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, context.Canceled) {
		return heard, fmt.Errorf("client: events: %w: %w", io.ErrUnexpectedEOF, err)
	}
	return heard, fmt.Errorf("client: events: the stream ended: %w", io.ErrUnexpectedEOF)
}

const maxEventLine = 1 << 20 // bytes

func (s *eventStream) event(data string, yield func(Event, error) bool) error {
	var e Event
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return fmt.Errorf("client: read an event: %w", err)
	}
	e.ID, _ = strconv.ParseInt(s.last, 10, 64) // 0 from a server that does not number them
	if !yield(e, nil) {
		return errLeft
	}
	return nil
}
