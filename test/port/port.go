// Package port finds ports for servers that are told theirs. Nobody else may come by one
// after it was found and before its server listens there, nor while that is restarted:
// the ports are none of those that the system gives to connections and to listeners that
// take any, which come and go all the time.
package port

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

const (
	lowest = 10_000 // below are those of known services
	tries  = 100
	given  = "/proc/sys/net/ipv4/ip_local_port_range" // what the system gives away
)

// Free returns a port of 127.0.0.1 on which nobody listens.
func Free(ctx context.Context) (port string, err error) {
	text, err := os.ReadFile(given)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	below := firstOf(string(text))
	for range tries {
		port = strconv.Itoa(lowest + rand.IntN(below-lowest))
		if err = vacant(ctx, port); err == nil {
			return port, nil
		}
	}
	return "", fmt.Errorf("port: none of %d below %d is free: %w", tries, below, err)
}

// firstOf is the first port that the system gives away, by its setting. A system
// that does not tell, or leaves too few below, is taken for one of IANA's.
func firstOf(setting string) int {
	const dynamic = 49_152
	var first, last int
	if n, _ := fmt.Sscan(setting, &first, &last); n == 2 && first >= lowest+1000 {
		return first
	}
	return dynamic
}

func vacant(ctx context.Context, port string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return err
	}
	return l.Close()
}
