package sqldb

import (
	"net"
	"time"
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
