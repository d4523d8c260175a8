package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
)

// createProfile says where the CPU of creates goes, in a drive inside this process.
func (b *bench) createProfile(ctx context.Context, sizes driveSizes, r *driveReport) (err error) {
	rooms, err := b.driveRooms(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rooms.close()) }()
	b.note("profile, create")
	small := strings.Repeat("x", smallBody)
	file := filepath.Join(b.profileDir(sizes.Profiles), "create-file.pprof")
	var op operation
	err = underProfile(file, func() error {
		return op.measure(8, 5*sizes.Creates, func(i int) error {
			_, err := rooms.do(ctx, http.MethodPut, fmt.Sprintf("%sf-%d", fsPath, i), small)
			return err
		})
	})
	if err != nil {
		return err
	}
	r.CPU = &operationProfile{Operation: "create of an inline file", Requests: 5 * sizes.Creates}
	return r.CPU.readAll(ctx, file)
}

// readAll is read of all goroutines: where no network is between, none answers.
func (p *operationProfile) readAll(ctx context.Context, file string) error {
	traces, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-traces", "-unit=ms", file).Output()
	if err != nil {
		return fmt.Errorf("go tool pprof: %w", err)
	}
	var total float64
	total, p.Packages = byPackage(traces)
	p.Micros = 1000 * total / float64(p.Requests)
	top, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-nodecount=10", "-unit=ms", file).Output()
	if err != nil {
		return fmt.Errorf("go tool pprof: %w", err)
	}
	p.Top = topOf(top, total)
	return nil
}
