package chaos

import (
	"context"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// database is a gateway in front of the database, one for each server: a server can lose
// it while the others have it, and while the store is within its reach.
type database struct {
	URL string // of the database, through the gateway

	target   string // host:port
	listener net.Listener
	ctx      context.Context //nolint:containedctx // of the test, for what lives until its end
	group    sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	refuse  bool          // new connections end at once
	base    time.Duration // of each piece that passes, at all times
	delay   time.Duration // of each piece, while it is slow
	stalled chan struct{} // closed when pieces may pass again; nil when they may
}

// newDatabase returns a gateway to the database with that URL.
func newDatabase(t *testing.T, target string) *database {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	d := &database{target: u.Host, listener: listener, ctx: ctx, conns: map[net.Conn]struct{}{}}
	u.Host = listener.Addr().String()
	d.URL = u.String()
	d.group.Go(d.accept)
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		d.heal()
		d.cut()
		d.group.Wait()
	})
	return d
}

func (d *database) accept() {
	for {
		conn, err := d.listener.Accept()
		if err != nil {
			return // closed
		}
		d.group.Go(func() { d.serve(conn) })
	}
}

func (d *database) serve(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := (&net.Dialer{}).DialContext(d.ctx, "tcp", d.target)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	if !d.enter(from, to) {
		return
	}
	defer d.leave(from, to)
	var both sync.WaitGroup
	both.Go(func() { d.copy(to, from) })
	both.Go(func() { d.copy(from, to) })
	both.Wait()
}

func (d *database) enter(conns ...net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse {
		return false
	}
	for _, c := range conns {
		d.conns[c] = struct{}{}
	}
	return true
}

func (d *database) leave(conns ...net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range conns {
		delete(d.conns, c)
	}
}

// copy passes pieces until one of the ends does not want more; then both are closed.
func (d *database) copy(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			d.hold()
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// hold waits as long as a piece has to.
func (d *database) hold() {
	d.mu.Lock()
	delay, stalled := max(d.delay, d.base), d.stalled
	d.mu.Unlock()
	if stalled != nil {
		select {
		case <-stalled:
		case <-d.ctx.Done():
		}
	}
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-d.ctx.Done():
		}
	}
}

// cut ends every connection.
func (d *database) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.conns {
		_ = c.Close()
	}
}

// down ends every connection and takes no new ones.
func (d *database) down() {
	d.mu.Lock()
	d.refuse = true
	d.mu.Unlock()
	d.cut()
}

// far gives the way to the database a length.
func (d *database) far(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.base = by
}

// slow delays each piece.
func (d *database) slow(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delay = by
}

// stall lets nothing pass, and ends no connection.
func (d *database) stall() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stalled == nil {
		d.stalled = make(chan struct{})
	}
}

// heal ends slow, stall and down.
func (d *database) heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuse, d.delay = false, 0
	if d.stalled != nil {
		close(d.stalled)
		d.stalled = nil
	}
}
