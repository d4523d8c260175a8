//go:build lethe_crash

package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/lethe-project/lethe/internal/purge"
)

// The test build stops for ever at the step that LETHE_CRASH_STEP names, or the file of
// that name at the moment when it begins with a slash, after it wrote the file
// LETHE_CRASH_MARK: the test then kills the process.
func step() func(string) {
	return func(name string) {
		at := os.Getenv("LETHE_CRASH_STEP")
		if strings.HasPrefix(at, "/") {
			text, err := os.ReadFile(at)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				panic(err)
			}
			at = string(text)
		}
		if name != at {
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
	return func(op, point string) error { stop(op + "." + point); return nil } // op begins with "drive."
}

func stepOfContent() func(context.Context, string) error {
	stop := step()
	return func(_ context.Context, name string) error {
		stop("content." + strings.ReplaceAll(name, ": ", "."))
		return nil
	}
}
