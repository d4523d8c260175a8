//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package local

import "os"

// publish gives the file from, in the open directory d, its final name, and fails when that
// is taken.
func publish(d *os.File, from, to string) error { return linkOver(d, from, to) }
