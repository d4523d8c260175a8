//go:build lethe_crash

package server

import (
	"context"
	"fmt"
	"os"

	"github.com/lethe-project/lethe/internal/purge"
)

// The test build stops for ever at the step that LETHE_CRASH_STEP names, after it wrote
// the file LETHE_CRASH_MARK: the test then kills the process.
func step() func(string) {
	return func(name string) {
		if name != os.Getenv("LETHE_CRASH_STEP") {
			return
		}
		if err := os.WriteFile(os.Getenv("LETHE_CRASH_MARK"), []byte(name+"\n"), 0o600); err != nil {
			panic(err)
		}
		select {}
	}
}

func stepOfLevel() func(purge.Level, string) {
	stop := step()
	return func(level purge.Level, name string) { stop(fmt.Sprintf("%s.%s", level, name)) }
}

func stepOfDrive() func(context.Context, string) error {
	stop := step()
	return func(_ context.Context, name string) error { stop("removal." + name); return nil }
}

func stepOfFile() func(op, point string) error {
	stop := step()
	return func(op, point string) error { stop("drive." + op + "." + point); return nil }
}
