package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// catalogSizes of the benchmark.
type catalogSizes struct {
	Tables      int           `default:"10000" help:"Tables that are made, and then listed."`
	Hot         int           `default:"1000" help:"Tables among them that are loaded; they have 20 snapshots. 51 more are written."`
	Snapshots   int           `default:"3000" help:"Snapshots of one large table."`
	Loads       int           `default:"4000" help:"Loads, and as many HEADs, of a run."`
	Commits     int           `default:"600" help:"Commits of a run."`
	Lists       int           `default:"30" help:"Lists of a run."`
	Runs        int           `default:"3" help:"Runs; each does everything in turn."`
	Connections int           `default:"8" help:"Connections at once."`
	PurgeFiles  int           `default:"500000" help:"Files of each of the two purges beside which tables are loaded."`
	Rounds      int           `default:"3" help:"How often that is done."`
	Idle        time.Duration `default:"8s" help:"How long loads without purges are measured, before and after."`
	Pace        float64       `default:"200" help:"Loads per second beside the purges."`
	StoreDelay  time.Duration `default:"20ms" help:"How long the purges' store takes for each request."`
	Profiles    string        `placeholder:"DIR" help:"Keep the CPU profiles there."`
	Part        string        `default:"all" enum:"all,rates,statements,cpu,purges" help:"all, rates, statements, cpu or purges."`
}

func (s catalogSizes) of(quick bool) catalogSizes {
	if quick {
		return catalogSizes{
			Tables: 70, Hot: 10, Snapshots: 100, Loads: 30, Commits: 20, Lists: 2, Runs: 1, Connections: 2,
			PurgeFiles: 2000, Rounds: 1, Idle: 200 * time.Millisecond, Pace: s.Pace, StoreDelay: time.Millisecond,
			Profiles: s.Profiles, Part: s.Part,
		}
	}
	return s
}

func (s catalogSizes) does(part string) bool { return s.Part == "all" || s.Part == part }

type catalogReport struct {
	Environment environment        `json:"environment"`
	Operations  []operation        `json:"operations"`
	Documents   map[string]int     `json:"document_bytes"` // of the tables that are loaded
	Statements  []statements       `json:"statements"`
	CPU         []operationProfile `json:"cpu"`
	Purges      *besidePurges      `json:"purges,omitempty"`
	Checks      []check            `json:"checks"`
}

// operation is one operation sent again and again over several connections.
type operation struct {
	Name         string `json:"name"`
	Connections  int    `json:"connections"`
	PerSecond    spread `json:"per_second"` // one figure a run
	Ratio        spread `json:"ratio"`      // of it to the bare request of the same run
	Milliseconds spread `json:"milliseconds"`
	Conflicts    int    `json:"conflicts"` // answers of 409, after which the client sent again
	rates        []float64
	ratios       []float64
	took         []float64
}

func (b *bench) catalog(ctx context.Context, sizes catalogSizes) (*catalogReport, error) {
	r := &catalogReport{Environment: b.environment()}
	if sizes.does("statements") {
		var err error
		if r.Statements, err = b.countStatements(ctx); err != nil {
			return nil, fmt.Errorf("statements: %w", err)
		}
		r.Checks = append(r.Checks, statementChecks(r.Statements)...)
	}
	if sizes.does("rates") {
		if err := b.operations(ctx, sizes, r); err != nil {
			return nil, fmt.Errorf("rates: %w", err)
		}
	}
	if sizes.does("cpu") {
		var err error
		if r.CPU, err = b.operationProfiles(ctx, sizes); err != nil {
			return nil, fmt.Errorf("profile: %w", err)
		}
	}
	if sizes.does("purges") {
		var err error
		if r.Purges, err = b.besidePurges(ctx, sizes); err != nil {
			return nil, fmt.Errorf("beside purges: %w", err)
		}
		r.Checks = append(r.Checks, atMost("p95 of loads beside two purges, to idle", r.Purges.P95Ratio.P50, 2))
	}
	return r, nil
}

// bare is the request that does nothing: what HTTP and the client alone cost.
const bare = "GET /healthz (bare HTTP)"

// operations measures everything on one server, run by run.
func (b *bench) operations(ctx context.Context, sizes catalogSizes, r *catalogReport) (err error) {
	p, err := b.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.createNamespace(ctx); err != nil {
		return err
	}
	b.note("making %d tables", sizes.Tables)
	all := map[string]*operation{}
	var order []string
	measure := func(name string, connections, n int, do func(i int) error) error {
		op := all[name]
		if op == nil {
			op = &operation{Name: name, Connections: connections}
			all[name], order = op, append(order, name)
		}
		return op.measure(connections, n, do)
	}
	// The tables are made in as many parts as there are runs, for a spread.
	for run := range sizes.Runs {
		first, last := run*sizes.Tables/sizes.Runs, (run+1)*sizes.Tables/sizes.Runs
		if err := measure("create", sizes.Connections, last-first, func(i int) error { return p.create(ctx, tableName(first+i)) }); err != nil {
			return err
		}
	}
	b.note("giving %d of them a history", sizes.Hot)
	if err := p.histories(ctx, sizes); err != nil {
		return err
	}
	if r.Documents, err = p.documents(ctx, sizes); err != nil {
		return err
	}
	writers := &writers{sizes: sizes}
	for run := range sizes.Runs {
		b.note("run %d of %d", run+1, sizes.Runs)
		if err := p.restart(ctx); err != nil {
			return err
		}
		writers.endpoint = p.endpoint
		for _, step := range []struct {
			name        string
			connections int
			n           int
			do          func(i int) error
		}{
			{"load, cold cache", sizes.Connections, sizes.Hot, func(i int) error { return p.load(ctx, tableName(i)) }},
			{bare, sizes.Connections, sizes.Loads, func(int) error { return p.do(ctx, http.MethodGet, "/healthz", nil, nil) }},
			{"HEAD", sizes.Connections, sizes.Loads, func(i int) error { return p.do(ctx, http.MethodHead, tablesPath+tableName(i%sizes.Hot), nil, nil) }},
			{"load, warm cache", sizes.Connections, sizes.Loads, func(i int) error { return p.load(ctx, tableName(i%sizes.Hot)) }},
			{"load, warm, large, gzip", sizes.Connections, sizes.Loads / 10, func(int) error { return p.load(ctx, sizes.large()) }},
			{fmt.Sprintf("list of %d", sizes.Tables), 1, sizes.Lists, func(int) error { return p.do(ctx, http.MethodGet, strings.TrimSuffix(tablesPath, "/"), nil, nil) }},
			{"commit to one table", sizes.Connections, sizes.Commits, func(i int) error { return writers.property(ctx, 0, i) }},
			{"commit to 50 tables", sizes.Connections, sizes.Commits, func(i int) error { return writers.property(ctx, i%writerTables, i) }},
			{"append to 50 tables", sizes.Connections, sizes.Commits, func(i int) error { return writers.append(ctx, i%writerTables) }},
		} {
			if err := measure(step.name, step.connections, step.n, step.do); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
		floor := all[bare].rates[run]
		for _, op := range all {
			op.ratios = append(op.ratios, ratio(op.rates[run], floor))
		}
	}
	for _, name := range order {
		op := all[name]
		op.PerSecond, op.Ratio, op.Milliseconds = spreadOf(op.rates), spreadOf(op.ratios), spreadOf(op.took)
		r.Operations = append(r.Operations, *op)
	}
	return nil
}

func (r *catalogReport) text(w io.Writer) {
	r.Environment.text(w)
	if len(r.Operations) > 0 {
		fmt.Fprintf(w, "\noperations; documents of %d B, the large one %d B\n", r.Documents["hot"], r.Documents["large"])
	}
	for _, op := range r.Operations {
		fmt.Fprintf(w, "  %-26s %8.4g/s  (%.4g to %.4g, %.2f of bare, %d connections)  %s  conflicts %d\n", op.Name,
			op.PerSecond.P50, op.PerSecond.Min, op.PerSecond.Max, op.Ratio.P50, op.Connections, op.Milliseconds.text("ms"), op.Conflicts)
	}
	if len(r.Statements) > 0 {
		fmt.Fprintln(w, "\nSQL statements, BEGIN and COMMIT left out")
	}
	for _, s := range r.Statements {
		fmt.Fprintf(w, "  %-44s %d\n", s.Operation, s.Statements)
	}
	for _, p := range r.CPU {
		p.text(w)
	}
	if r.Purges != nil {
		r.Purges.text(w)
	}
	checksText(w, r.Checks)
}
