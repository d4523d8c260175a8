// Package main measures the server from outside, the way its users meet it.
//
//	go run ./test/bench drop  [--json] [--quick] [--database URL]
//	go run ./test/bench purge [--json] [--quick] [--database URL] [--store stub|s3]
//	go run ./test/bench catalog [--json] [--quick] [--database URL]
//	go run ./test/bench drive [--json] [--quick] [--database URL]
//	go run ./test/bench rm [--json] [--quick] [--database URL] [--shapes …]
//
// drop asks whether a DELETE returns at once however much the table names; purge asks
// how fast files go beside a bare loop of removals, where the time goes, and whether
// memory grows with the table, and on a store that takes its time how near it comes to
// what that allows; catalog asks what loads, HEADs, lists, creates and commits
// cost, in time and in SQL, alone and beside purges; drive asks the same of files and
// directories; rm asks how fast trees go beside the raw statements that remove the same
// rows, how long a detach takes, and what a writer feels meanwhile. Every figure of another machine is only comparable as a
// ratio, so whatever is compared runs interleaved, and the ratio is taken in the run.
//
// The server is the built binary in a process of its own, fresh for each part, on an
// empty data folder and an empty database. CPU profiles, counts of statements and the
// sweeps of rm are of a server inside this process. A target that is missed is reported, it is no failure of the program.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

type cli struct {
	JSON     bool   `name:"json" help:"Print JSON instead of text."`
	Quick    bool   `help:"A smoke run of a few seconds: its figures mean nothing."`
	Database string `placeholder:"URL" help:"postgres://… or mysql://… of a server where databases may be made and dropped. Empty means SQLite."`
	Binary   string `placeholder:"FILE" help:"The server. Empty means: build it."`
	Dir      string `placeholder:"DIR" help:"Where scratch folders go. Empty means the system's place for such."`

	Drop    dropSizes    `cmd:"" help:"Latency of drops."`
	Purge   purgeSizes   `cmd:"" help:"Rate, CPU and memory of purges."`
	Catalog catalogSizes `cmd:"" help:"Rate, latency, SQL and CPU of the catalog's operations."`
	Drive   driveSizes   `cmd:"" help:"Rate, latency, SQL and memory of the drive's operations."`
	Rm      rmSizes      `cmd:"" help:"Recursive deletes beside the raw statements, their detach and what a writer feels."`
	Store   storeCmd     `cmd:"" hidden:"" help:"A store that speaks enough S3, until its input ends."`
}

// report is what a benchmark found out.
type report interface{ text(w io.Writer) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// run is main without the process around it.
func run(ctx context.Context, args []string, out, notes io.Writer) error {
	var c cli
	parser, err := kong.New(&c, kong.Name("bench"), kong.UsageOnError())
	if err != nil {
		return err
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return err
	}
	if parsed.Command() == "store" {
		return c.Store.serve(ctx, os.Stdin, out)
	}
	b, err := newBench(ctx, &c, notes)
	if err != nil {
		return err
	}
	defer b.close()
	var r report
	switch parsed.Command() {
	case "drop":
		r, err = b.drop(ctx, c.Drop.of(c.Quick))
	case "purge":
		r, err = b.purge(ctx, c.Purge.of(c.Quick))
	case "drive":
		r, err = b.drive(ctx, c.Drive.of(c.Quick))
	case "rm":
		r, err = b.rm(ctx, c.Rm.of(c.Quick))
	default:
		r, err = b.catalog(ctx, c.Catalog.of(c.Quick))
	}
	if err != nil {
		return err
	}
	if !c.JSON {
		r.text(out)
		return nil
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
