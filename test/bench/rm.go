package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// rmSizes of the benchmark.
type rmSizes struct {
	Shapes   []string `default:"flat100k,100x1000,1000x10,chain1000x10,flat1m" help:"flatN, DxN (D directories of N files) or chainDxN; k and m are thousand and million."`
	Runs     int      `default:"3" help:"Sweeps of each shape, each beside a run of the ceiling."`
	Ceilings []string `default:"keys,ranges" enum:"keys,ranges" help:"How the raw statements beside each sweep remove dentries; the targets are of keys."`
	Writes   int      `default:"300" help:"Writes of the sibling writer before a sweep; beside it there are as many as its duration allows."`
	Few      int      `default:"2000" help:"Files of the small tree whose detach is timed."`
	Many     int      `default:"1000000" help:"Files of the large one, and of the tree at the end of which the server's memory is looked at."`
	Detaches int      `default:"30" help:"Detaches of each."`
	Small    int      `default:"10000" help:"Files of the tree with whose delete the server's memory is compared."`
	Profiles string   `placeholder:"DIR" help:"Keep a CPU profile of the sweeps of each shape there."`
	Part     string   `default:"all" enum:"all,rates,beside,detach,memory" help:"all, rates, beside, detach or memory."`
}

func (s rmSizes) of(quick bool) rmSizes {
	if quick {
		return rmSizes{
			Shapes: []string{"flat1500", "3x600", "150x10", "chain120x10"}, Runs: 1, Ceilings: []string{byKeys, byRanges}, Writes: 10, Few: 1200, Many: 3000, Detaches: 2, Small: 1200,
			Profiles: s.Profiles, Part: s.Part,
		}
	}
	return s
}

func (s rmSizes) does(part string) bool { return s.Part == "all" || s.Part == part }

type rmReport struct {
	Environment environment    `json:"environment"`
	Durability  string         `json:"durability"`
	Ceiling     []string       `json:"ceiling_statements"` // of files (dentries in either form, then the rest), and of directories
	Shapes      []shapeFigures `json:"shapes"`
	Detach      *detachFigures `json:"detach,omitempty"`
	Memory      []sweepMemory  `json:"memory"`
	Checks      []check        `json:"checks"`
}

// shapeFigures are those of one shape of tree.
type shapeFigures struct {
	Shape        string           `json:"shape"`
	Nodes        int              `json:"nodes"`
	PerSecond    spread           `json:"nodes_per_second"` // from the request to the end of the sweep, one figure a run
	Ceilings     []ceilingFigures `json:"ceilings"`
	Seconds      spread           `json:"seconds"`
	CPU          spread           `json:"cpu_microseconds_per_node"` // of this process: the engine too with SQLite, else the client alone
	Statements   float64          `json:"statements_per_node"`
	Transactions int64            `json:"transactions"`
	Batch        spread           `json:"batch_milliseconds"` // from BEGIN to the answer of COMMIT, of those that remove files
	Hold         spread           `json:"hold_milliseconds"`  // of it, from when the directories are locked
	Beside       *beside          `json:"beside,omitempty"`
}

// ceilingFigures are those of the raw statements on equal trees.
type ceilingFigures struct {
	Form      string `json:"dentries_by"`
	PerSecond spread `json:"nodes_per_second"`
	Ratio     spread `json:"ratio"` // of the sweep's rate to it, of two runs side by side
	CPU       spread `json:"cpu_microseconds_per_node"`
}

// beside is a writer of small files in another directory of the drive.
type beside struct {
	Idle  spread `json:"idle_milliseconds"`
	Sweep spread `json:"sweep_milliseconds"` // while a tree is swept
	Batch spread `json:"batch_milliseconds"` // of that sweep
}

// peer is what the nearest other file system over SQL reaches on the machine where the
// figures of docs/benchmarks.md were taken, in entries a second: the metadata engine of
// JuiceFS with batched unlinks, 100,000 files in one directory, and 1,000 levels of 10.
var peer = map[sqldb.Name]struct{ flat, deep, timesFlat, timesDeep float64 }{
	sqldb.SQLite:   {6021, 1970, 4, 15},
	sqldb.Postgres: {1305, 194, 12, 50},
	sqldb.MySQL:    {1167, 172, 12, 50},
}

func (b *bench) rm(ctx context.Context, sizes rmSizes) (*rmReport, error) {
	r := &rmReport{Environment: b.environment()}
	if sizes.does("rates") || sizes.does("beside") {
		for _, name := range sizes.Shapes {
			s, err := parseShape(name)
			if err != nil {
				return nil, err
			}
			if err := b.shape(ctx, s, sizes, r); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		r.compare()
	}
	if sizes.does("detach") {
		if err := b.detaches(ctx, sizes, r); err != nil {
			return nil, fmt.Errorf("detach: %w", err)
		}
	}
	if sizes.does("memory") {
		if err := b.sweepMemory(ctx, sizes, r); err != nil {
			return nil, fmt.Errorf("memory: %w", err)
		}
	}
	return r, nil
}

// shape measures one shape in a database of its own.
func (b *bench) shape(ctx context.Context, s shape, sizes rmSizes, r *rmReport) (err error) {
	var clock stepClock
	rooms, err := b.driveRooms(ctx, clock.step)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rooms.close()) }()
	rooms.work() //nolint:contextcheck // the workers live until the rooms are closed
	if r.Durability, err = durability(ctx, rooms.db); err != nil {
		return err
	}
	engine := rooms.db.Dialect().Name
	figures := shapeFigures{Shape: s.Name, Nodes: s.nodes()}
	if sizes.does("rates") {
		if err := b.sweeps(ctx, rooms, &clock, s, sizes, &figures, r); err != nil {
			return err
		}
		r.Checks = append(r.Checks, figures.checks(s, engine)...)
	}
	if sizes.does("beside") {
		if figures.Beside, err = b.besideSweep(ctx, rooms, &clock, s, sizes); err != nil {
			return err
		}
	}
	r.Shapes = append(r.Shapes, figures)
	return nil
}

func (f shapeFigures) checks(s shape, engine sqldb.Name) (checks []check) {
	least := 0.7
	if s.Chain {
		least = 0.5
	}
	for _, c := range f.Ceilings {
		if c.Form == byKeys {
			checks = append(checks, atLeast("rate to the raw ceiling, "+s.Name, c.Ratio.P50, least))
		}
	}
	rows := float64(batchRows(engine))
	if s.Dirs == 0 && s.Files >= 20*int(rows) { // what a sweep begins and ends with is no matter then
		checks = append(checks, atMost("statements a node, "+s.Name, f.Statements, 14/rows+0.001))
	}
	checks = append(checks, atMost("transactions, "+s.Name, float64(f.Transactions), 2*float64(s.nodes())/rows+50))
	switch p := peer[engine]; s.Name {
	case "flat100k":
		checks = append(checks, atLeast("rate to the peer's, "+s.Name, f.PerSecond.P50/p.flat, p.timesFlat))
	case "chain1000x10":
		checks = append(checks, atLeast("rate to the peer's, "+s.Name, f.PerSecond.P50/p.deep, p.timesDeep))
	}
	return checks
}

// compare asks whether a sweep of ten times the nodes takes much more than ten times as long.
func (r *rmReport) compare() {
	seconds := map[string]float64{}
	for _, f := range r.Shapes {
		seconds[f.Shape] = f.Seconds.P50
	}
	if seconds["flat1m"] > 0 && seconds["flat100k"] > 0 {
		r.Checks = append(r.Checks, atMost("time of flat1m to flat100k", seconds["flat1m"]/seconds["flat100k"], 13))
	}
}

func (r *rmReport) text(w io.Writer) {
	r.Environment.text(w)
	fmt.Fprintln(w, r.Durability)
	if len(r.Ceiling) > 0 {
		fmt.Fprintln(w, "\nthe ceiling: in one transaction a batch")
	}
	for _, s := range r.Ceiling {
		fmt.Fprintln(w, "  "+strings.Join(strings.Fields(s), " "))
	}
	for _, f := range r.Shapes {
		fmt.Fprintf(w, "\n%s, %d nodes\n", f.Shape, f.Nodes)
		if f.PerSecond.N > 0 {
			fmt.Fprintf(w, "  sweep      %s, CPU %.3g µs a node\n", f.PerSecond.rangeText("nodes/s"), f.CPU.P50)
			for _, c := range f.Ceilings {
				fmt.Fprintf(w, "  ceiling    %s, CPU %.3g µs a node, dentries by %s\n  ratio      %s\n", c.PerSecond.rangeText("nodes/s"), c.CPU.P50, c.Form, c.Ratio.rangeText(""))
			}
			fmt.Fprintf(w, "  %.4f statements a node, %d transactions\n", f.Statements, f.Transactions)
			fmt.Fprintf(w, "  batch      %s\n  lock hold  %s\n", f.Batch.text("ms"), f.Hold.text("ms"))
		}
		if f.Beside != nil {
			fmt.Fprintf(w, "  sibling writer, idle       %s\n", f.Beside.Idle.text("ms"))
			fmt.Fprintf(w, "  sibling writer, meanwhile  %s\n", f.Beside.Sweep.text("ms"))
			fmt.Fprintf(w, "  batch, meanwhile           %s\n", f.Beside.Batch.text("ms"))
		}
	}
	if r.Detach != nil {
		r.Detach.text(w)
	}
	for _, m := range r.Memory {
		m.text(w)
	}
	checksText(w, r.Checks)
}
