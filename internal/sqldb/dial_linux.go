package sqldb

import (
	"errors"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundSilence ends a connection whose data nobody acknowledges; probes are not sent while
// some is on the way.
func boundSilence(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var set error
	err := c.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
	return errors.Join(err, set)
}
