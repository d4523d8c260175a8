// Command lethe is the server and the tool for its operators, in one binary.
//
// Exit codes: 0 ok; 1 failed, which includes a job that ended FAILED; 2 wrong usage,
// wrong settings included; 130 interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

type cli struct {
	Serve      serveCmd      `cmd:"" help:"Run the server."`
	Warehouse  warehouseCmd  `cmd:"" help:"Make, list, show, change and drop warehouses."`
	Namespace  namespaceCmd  `cmd:"" help:"List, show and drop namespaces."`
	Table      tableCmd      `cmd:"" help:"List, show, register, rename and drop tables."`
	View       viewCmd       `cmd:"" help:"List, show, rename and drop views."`
	Fs         fsCmd         `cmd:"" help:"Files and directories of the drive."`
	Tenant     tenantCmd     `cmd:"" help:"Make, list, show, bound and drop tenants."`
	Token      tokenCmd      `cmd:"" help:"Make, list and revoke tokens."`
	Job        jobCmd        `cmd:"" help:"Watch and control deletes."`
	Cleanups   cleanupsCmd   `cmd:"" help:"What dropped tables left behind, and how far its deletion is."`
	Migrate    migrateCmd    `cmd:"" help:"Bring the database's schema up to date, or say whether it is."`
	Completion completionCmd `cmd:"" help:"Print a script that completes commands and flags in a shell."`
	Version    versionCmd    `cmd:"" help:"Say which version this is."`
}

const description = `An Apache Iceberg REST catalog whose deletes finish.

Namespaces and tables are written with dots: shop.orders is the table orders of the
namespace shop. A dot or backslash that belongs to a name has a backslash before it:
'v1\.0.orders' is the table orders of the namespace v1.0.`

var errInterrupted = errors.New("interrupted")

func main() {
	os.Exit(run(interruptible(context.Background()), os.Args[1:], newConsole()))
}

// interruptible returns a context that the first SIGINT or SIGTERM ends, with
// errInterrupted as its cause. The second ends the process at once.
func interruptible(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // until the process ends
		<-signals
		cancel(errInterrupted)
		<-signals
		os.Exit(exitInterrupted)
	}()
	return ctx
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, c *console) int {
	var commands cli
	parser, err := kong.New(&commands,
		kong.Name("lethe"),
		kong.Description(description),
		kong.Writers(c.out, c.err),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.ValueFormatter(help),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(c),
	)
	if err != nil {
		return c.fail(err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if err != nil {
		return c.fail(usageError{fmt.Errorf("%w\nRun lethe --help, or lethe COMMAND --help", err)})
	}
	if err := command.Run(); err != nil {
		return c.fail(err)
	}
	return exitOK
}

// help is a flag's text with its default.
func help(value *kong.Value) string {
	text := kong.DefaultHelpValueFormatter(value)
	if value.HasDefault && value.Default != "" && value.Flag != nil {
		text += " Default: " + value.Default + "."
	}
	return text
}
