package sqldb

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
)

const (
	dialTimeout = 10 * time.Second
	// silence is how long a database may leave what was sent to it unacknowledged. A machine
	// that vanishes says nothing: the kernel alone would repeat for a quarter of an hour, and
	// every statement on the way would wait for it, also when another one has taken over.
	silence = 30 * time.Second
)

// dialer connects to databases. A statement may take as long as it likes while the machine
// that works on it is there: probes ask that, and no data.
func dialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence / 3, Interval: silence / 6, Count: 4},
		Control:         boundSilence,
	}
}

// dialFunc is how both drivers ask for a connection.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// wires knows the open connections of one database, so that none of them, and nobody who
// waits for an answer on one, outlives it.
type wires struct {
	dialer dialFunc

	mu   sync.Mutex
	over bool
	open map[*wire]struct{}
}

func newWires(dialer dialFunc) *wires {
	return &wires{dialer: dialer, open: map[*wire]struct{}{}}
}

// dial is a dialFunc.
func (w *wires) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := w.dialer(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	made := &wire{Conn: conn, of: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	w.open[made] = struct{}{}
	return made, nil
}

// cut ends what is left when the pools are closed: a driver that waits for an answer, or
// asks the server to give up.
func (w *wires) cut() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for left := range w.open {
		_ = left.Conn.Close()
	}
	clear(w.open)
}

// wire is one connection.
type wire struct {
	net.Conn
	of   *wires
	late atomic.Pointer[fault.Error] // why its time ended
}

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if late := w.late.Load(); late != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		err = late
	}
	return n, err
}

// Close implements net.Conn.
func (w *wire) Close() error {
	w.of.mu.Lock()
	delete(w.of.open, w)
	w.of.mu.Unlock()
	return w.Conn.Close()
}

// SyscallConn is how a driver looks whether the server has hung up.
func (w *wire) SyscallConn() (syscall.RawConn, error) {
	if conn, ok := w.Conn.(syscall.Conn); ok {
		return conn.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
