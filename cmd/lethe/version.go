package main

import (
	"runtime"
	"runtime/debug"
)

// version is set by the linker of a release.
var version = "dev"

type versionCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints the version, and what it was built from.
func (v *versionCmd) Run(c *console) error {
	revision := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	if v.JSON {
		return c.json(map[string]string{"version": version, "revision": revision, "go": runtime.Version()})
	}
	return c.print("lethe %s (revision %s, %s)", version, revision, runtime.Version())
}
