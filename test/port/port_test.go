package port

import (
	"net"
	"os"
	"strconv"
	"testing"
)

func TestFreeIsNoneThatTheSystemGivesAway(t *testing.T) {
	t.Parallel()
	setting, _ := os.ReadFile(given) // elsewhere there is none
	below := firstOf(string(setting))
	for range 50 {
		port, err := Free(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n, err := strconv.Atoi(port); err != nil || n < lowest || n >= below {
			t.Errorf("port %q, want one from %d to below %d", port, lowest, below)
		}
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatalf("a free port: %v", err)
		}
		defer func() { _ = l.Close() }()
	}
}

func TestFirstOf(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]int{
		"32768\t60999\n": 32768, "": 49152, "1024 65535": 49152, "x y": 49152, "20000 30000": 20000,
	} {
		if got := firstOf(setting); got != want {
			t.Errorf("%q: %d, want %d", setting, got, want)
		}
	}
}
