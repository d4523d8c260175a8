package sqldb

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// userTimeout reads how long a connection bears silence, in milliseconds.
func userTimeout(t *testing.T, conn net.Conn) (ms int) {
	t.Helper()
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("a %T is no TCP connection", conn)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if cerr := raw.Control(func(fd uintptr) {
		ms, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	return ms
}

// A database whose machine vanishes is given up after a while, whatever was on the way.
func TestSilenceIsBounded(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mc, err := mysqlConfig("mysql://u@"+l.Addr().String()+"/d", Config{})
	if err != nil {
		t.Fatal(err)
	}
	pc, err := postgresConfig("postgres://u@"+l.Addr().String()+"/d", Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, dial := range map[string]func() (net.Conn, error){
		"mysql":    func() (net.Conn, error) { return mc.DialFunc(t.Context(), "tcp", l.Addr().String()) },
		"postgres": func() (net.Conn, error) { return pc.DialFunc(t.Context(), "tcp", l.Addr().String()) },
	} {
		conn, err := dial()
		if err != nil {
			t.Fatal(name, err)
		}
		if got := userTimeout(t, conn); got != int(silence.Milliseconds()) {
			t.Errorf("%s: silence is borne for %d ms, want %d", name, got, silence.Milliseconds())
		}
		if err := conn.Close(); err != nil {
			t.Error(name, err)
		}
	}
}
