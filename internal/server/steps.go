//go:build !lethe_crash

package server

import (
	"context"

	"github.com/lethe-project/lethe/internal/purge"
)

// step and stepOfLevel are the pause points of the test build; here there are none.
func step() func(string) { return nil }

func stepOfLevel() func(purge.Level, string) { return nil }

func stepOfDrive() func(context.Context, string) error { return nil }

func stepOfFile() func(op, point string) error { return nil }

func stepOfContent() func(context.Context, string) error { return nil }
