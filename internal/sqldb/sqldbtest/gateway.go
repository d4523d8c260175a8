package sqldbtest

import (
	"context"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Gateway stands before a database server and can fall silent: connections stay, new ones
// are taken, and nothing passes. That is how a server looks that is stopped, or one behind a
// network that swallows packets. What was sent meanwhile arrives later.
type Gateway struct {
	URL string // of the database, through the gateway

	target   string // host:port
	listener net.Listener
	ctx      context.Context // of the test, for what lives until its end
	group    sync.WaitGroup

	mu      sync.Mutex
	open    map[net.Conn]struct{}
	gates   []*gate // the last is that of new connections
	silent  bool
	givenUp chan struct{}
}

// gate is what connections pass; a channel is closed while its direction is open.
type gate struct{ asks, answers chan struct{} }

func newGate() *gate {
	pass := make(chan struct{})
	close(pass)
	return &gate{pass, pass}
}

// NewGateway returns a gateway to the database with that URL, gone when the test ends.
func NewGateway(tb testing.TB, target string) *Gateway {
	tb.Helper()
	u, err := url.Parse(target)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	g := &Gateway{
		target: u.Host, listener: listener, ctx: ctx,
		open: map[net.Conn]struct{}{}, gates: []*gate{newGate()}, givenUp: make(chan struct{}),
	}
	u.Host = listener.Addr().String()
	g.URL = u.String()
	g.group.Go(g.accept)
	tb.Cleanup(func() {
		cancel()
		_ = listener.Close()
		g.mu.Lock()
		for conn := range g.open {
			_ = conn.Close()
		}
		g.mu.Unlock()
		g.group.Wait()
	})
	return g
}

// Freeze lets nothing pass any more.
func (g *Gateway) Freeze() { g.silence(true) }

// Mute lets no answer pass any more; what is asked arrives and is done.
func (g *Gateway) Mute() { g.silence(false) }

// Lose lets nothing pass any more on the connections that are open. New ones work.
func (g *Gateway) Lose() {
	g.silence(true)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gates = append(g.gates, newGate())
}

func (g *Gateway) silence(both bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent = true
	for _, gate := range g.gates {
		gate.answers = make(chan struct{})
		if both {
			gate.asks = make(chan struct{})
		}
	}
}

// Thaw lets everything pass, also what was held up.
func (g *Gateway) Thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent = false
	for _, gate := range g.gates {
		for _, way := range []chan struct{}{gate.asks, gate.answers} {
			select {
			case <-way:
			default:
				close(way)
			}
		}
	}
}

// GivenUp is closed when a client has lost patience with a silent database for the first
// time: it hung up, or tries another connection.
func (g *Gateway) GivenUp() <-chan struct{} { return g.givenUp }

func (g *Gateway) stir() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.silent {
		return
	}
	select {
	case <-g.givenUp:
	default:
		close(g.givenUp)
	}
}

func (g *Gateway) accept() {
	for {
		conn, err := g.listener.Accept()
		if err != nil {
			return // closed
		}
		g.stir()
		g.group.Go(func() { g.serve(conn) })
	}
}

func (g *Gateway) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := (&net.Dialer{}).DialContext(g.ctx, "tcp", g.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	g.mu.Lock()
	g.open[client], g.open[server] = struct{}{}, struct{}{}
	gate := g.gates[len(g.gates)-1]
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.open, client)
		delete(g.open, server)
	}()
	if g.ctx.Err() != nil { // the test ended before the two were known
		return
	}
	var both sync.WaitGroup
	both.Go(func() { g.copy(server, client, &gate.asks, g.stir) })
	both.Go(func() { g.copy(client, server, &gate.answers, func() {}) })
	both.Wait()
}

// copy passes pieces on, and at last that there are no more.
func (g *Gateway) copy(to, from net.Conn, way *chan struct{}, ended func()) {
	pieces := make(chan []byte, 1<<10)
	g.group.Go(func() { // so that an end is seen also while nothing passes
		defer close(pieces)
		for {
			piece := make([]byte, 16<<10)
			n, err := from.Read(piece)
			if n > 0 {
				pieces <- piece[:n]
			}
			if err != nil {
				ended()
				return
			}
		}
	})
	for piece := range pieces {
		g.pass(way)
		_, _ = to.Write(piece)
	}
	g.pass(way)
	_, _ = to.Close(), from.Close()
}

// pass waits until the way is open, or the test is over.
func (g *Gateway) pass(way *chan struct{}) {
	g.mu.Lock()
	open := *way
	g.mu.Unlock()
	select {
	case <-open:
	case <-g.ctx.Done():
	}
}
