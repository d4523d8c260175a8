package main

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A server that ends before it is ready, because somebody else has its port, is started on
// another one; not for ever, and then it is said why.
func TestServersAreStartedOnAnotherPort(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		works  int // the first try that does
		starts int
	}{
		{"at once", 1, 1},
		{"at the second try", 2, 2},
		{"never", listenTries + 1, listenTries},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := &daemon{dir: t.TempDir()}
			var ports []string
			got, err := d.listen(t.Context(), func(port string) (*exec.Cmd, error) {
				if ports = append(ports, port); len(ports) < tt.works {
					return exec.CommandContext(t.Context(), "sh", "-c", "echo the port is taken; exit 1"), nil
				}
				return exec.CommandContext(t.Context(), "sleep", "600"), nil
			}, func(context.Context, string) bool { return len(ports) >= tt.works })
			defer d.end(syscall.SIGTERM, syscall.SIGKILL)
			if len(ports) != tt.starts || got != ports[len(ports)-1] {
				t.Errorf("started on %q, told %s; want %d starts", ports, got, tt.starts)
			}
			failed := tt.works > listenTries
			if errors.Is(err, errEnded) != failed || failed && !strings.Contains(err.Error(), "the port is taken") {
				t.Errorf("%v, failed: %t", err, failed)
			}
		})
	}
}
