package files

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

// eventBody is the data of one event. A reset names the path below which all may have
// changed.
type eventBody struct {
	Kind     feed.Kind `json:"kind"`
	Path     string    `json:"path"`
	From     string    `json:"from,omitempty"`
	Parent   int64     `json:"parent,omitempty"`
	Inode    int64     `json:"inode,omitempty"`
	Revision int64     `json:"revision,omitempty"`
	Actor    string    `json:"actor,omitempty"`
	At       time.Time `json:"at"`
}

// events answers GET /v1/events as server-sent events (WHATWG HTML, section 9.2). The
// stream goes on after Last-Event-ID or ?after=, else begins with what happens next;
// ?path= narrows it. A stream whose events are gone begins with a reset of its path.
func (e *edge) events(c *call) error {
	scope := "/"
	if text := c.query.Get("path"); text != "" {
		p, err := parsePath(text)
		if err != nil {
			return err
		}
		scope = p.String()
	}
	after, err := c.resume()
	if err != nil {
		return err
	}
	if !c.covers(scope) {
		return tenant.Denied("files.events", tenant.Read, scope)
	}
	ctx, stop := context.WithCancel(c.ctx())
	defer stop()
	go func() {
		select {
		case <-e.Stopping: // never, when it is nil
			stop()
		case <-ctx.Done():
		}
	}()
	s := &stream{edge: e, call: c, scope: scope, rc: http.NewResponseController(c.w), after: after}
	return s.run(ctx)
}

// resume is the number after which the client wants to go on; negative when it begins.
func (c *call) resume() (int64, error) {
	text := c.r.Header.Get("Last-Event-ID")
	if text == "" {
		text = c.query.Get("after")
	}
	if text == "" {
		return -1, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fault.New("files.events", fault.Invalid, "InvalidEventID", "%q is no id of an event", text)
	}
	return n, nil
}

// covers reports whether the token may read path, or something below it.
func (c *call) covers(path string) bool {
	if c.principal.MayDrive(tenant.Read, path) {
		return true
	}
	for _, g := range c.principal.Grants {
		if g.Drive != "" && below(g.Drive, path) && c.principal.MayDrive(tenant.Read, g.Drive) {
			return true
		}
	}
	return false
}

func below(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

type stream struct {
	edge  *edge
	call  *call
	scope string
	rc    *http.ResponseController
	after int64
}

func (s *stream) run(ctx context.Context) error {
	events, next, reset, err := s.edge.Feed.Read(ctx, int64(s.call.fs), s.after, feed.MaxRead)
	if err != nil {
		return err
	}
	_ = s.rc.SetReadDeadline(time.Time{}) // the server's limit for reading a request; a recorder in a test has none
	h := s.call.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies would hold events back
	s.call.w.WriteHeader(http.StatusOK)
	beat, asked := time.Now(), time.Now()
	// Whoever begins here is told where; an id before the events of a resume would say that
	// they were seen.
	begins := ": the stream begins\n\n"
	if s.after < 0 {
		begins = "id: " + strconv.FormatInt(next, 10) + "\n" + begins
	}
	if s.send(begins) != nil {
		return nil //nolint:nilerr // the client hung up
	}
	for {
		if s.edge.Still != nil && time.Since(asked) >= s.edge.Recheck {
			if fault.KindOf(s.edge.Still(s.call.r)) == fault.Unauthenticated {
				return nil // the client comes back, and is told
			}
			asked = time.Now()
		}
		if reset {
			if s.event(next, eventBody{Kind: feed.Reset, Path: s.scope, At: time.Now().UTC()}) != nil {
				return nil //nolint:nilerr // the client hung up
			}
			beat = time.Now()
		}
		for _, ev := range events {
			body, ok := s.shown(ev)
			if !ok {
				continue
			}
			if s.event(ev.Seq, body) != nil {
				return nil //nolint:nilerr // the client hung up
			}
			beat = time.Now()
		}
		s.after = next
		if time.Since(beat) >= s.edge.Heartbeat {
			// The id moves on too: what was hidden need not be read again.
			if s.send("id: "+strconv.FormatInt(next, 10)+"\n: heartbeat\n\n") != nil {
				return nil //nolint:nilerr // the client hung up
			}
			beat = time.Now()
		}
		if len(events) == 0 && s.edge.Feed.Wait(ctx) != nil {
			return nil //nolint:nilerr // the client hung up, or the server stops
		}
		if events, next, reset, err = s.edge.Feed.Read(ctx, int64(s.call.fs), s.after, feed.MaxRead); err != nil {
			if ctx.Err() == nil {
				s.edge.Logger.WarnContext(ctx, "event stream ended", "requestId", s.edge.RequestID(ctx), "error", err)
			}
			return nil // the client comes back with its last id
		}
	}
}

// shown returns what of an event the caller may see: paths outside its scope or its
// token's grants are left out, and a rename across the border is a create or a remove. One of
// a directory above what is looked at takes all of it away, or brings it: a reset.
func (s *stream) shown(ev feed.Event) (eventBody, bool) {
	b := eventBody{Kind: ev.Kind, Path: ev.Path, From: ev.From, Parent: ev.Parent, Inode: ev.Inode, Revision: ev.Revision, Actor: ev.Actor, At: time.UnixMilli(ev.At).UTC()}
	if ev.Kind == feed.Reset {
		if below(s.scope, ev.Path) { // all that is looked at may have changed
			b.Path = s.scope
		}
		return b, below(b.Path, s.scope) && s.call.covers(b.Path)
	}
	if ev.Kind == feed.Rename && (s.above(ev.Path) || s.above(ev.From)) {
		return eventBody{Kind: feed.Reset, Path: s.scope, At: b.At}, true
	}
	visible := func(path string) bool {
		return path != "" && below(path, s.scope) && s.call.principal.MayDrive(tenant.Read, path)
	}
	switch to, from := visible(b.Path), visible(b.From); {
	case to && (from || b.From == ""):
		return b, true
	case to:
		b.Kind, b.From = feed.Create, ""
		return b, true
	case from:
		b.Kind, b.Path, b.From, b.Parent = feed.Remove, b.From, "", 0
		return b, true
	}
	return b, false
}

// above reports whether a path leads to what is looked at, and is not part of it.
func (s *stream) above(path string) bool {
	if path == "" {
		return false
	}
	if path != s.scope && below(s.scope, path) {
		return true
	}
	p := s.call.principal
	return slices.ContainsFunc(p.Grants, func(g tenant.Grant) bool {
		return g.Drive != "" && g.Drive != path && below(g.Drive, path) && below(g.Drive, s.scope) && p.MayDrive(tenant.Read, g.Drive) && !p.MayDrive(tenant.Read, path)
	})
}

func (s *stream) event(id int64, body eventBody) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString("id: ")
	b.WriteString(strconv.FormatInt(id, 10))
	b.WriteString("\nevent: ")
	b.WriteString(string(body.Kind))
	b.WriteString("\ndata: ")
	b.Write(text)
	b.WriteString("\n\n")
	return s.send(b.String())
}

func (s *stream) send(text string) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.edge.Idle)) // a recorder in a test has no deadlines
	if _, err := s.call.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.rc.Flush()
}
