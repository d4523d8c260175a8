package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// putSmall makes a small file.
func (e *endpoint) putSmall(ctx context.Context, path string) error {
	return e.transfer(ctx, http.MethodPut, fsPath+path, plainType, strings.NewReader(strings.Repeat("x", smallBody)), smallBody, dropped)
}

func (e *endpoint) mkdir(ctx context.Context, path string) error {
	return e.transfer(ctx, http.MethodPost, fsPath+path+"?op=mkdir", "", nil, 0, dropped)
}

func (e *endpoint) read(ctx context.Context, path string) error {
	return e.transfer(ctx, http.MethodGet, fsPath+path, "", nil, 0, dropped)
}

// smallFiles makes, reads and stats small files on one server, run by run, as many at once
// as there are clients.
func (b *bench) smallFiles(ctx context.Context, sizes driveSizes, r *driveReport) (err error) {
	p, err := b.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	all := map[string]*operation{}
	var order []string
	measure := func(name string, clients, n int, do func(i int) error) (rate float64, err error) {
		key := fmt.Sprintf("%s by %d", name, clients)
		op := all[key]
		if op == nil {
			op = &operation{Name: name, Connections: clients}
			all[key], order = op, append(order, key)
		}
		if err := op.measure(clients, n, do); err != nil {
			return 0, fmt.Errorf("%s: %w", key, err)
		}
		return op.rates[len(op.rates)-1], nil
	}
	type step struct {
		name string
		n    int
		do   func(dir string, i int) error
	}
	var steps []step
	if sizes.does("creates") {
		steps = append(steps,
			step{"create in one directory", sizes.Creates, func(dir string, i int) error { return p.putSmall(ctx, fmt.Sprintf("%s/one/f-%d", dir, i)) }},
			step{fmt.Sprintf("create in %d directories", sizes.Dirs), sizes.Creates, func(dir string, i int) error {
				return p.putSmall(ctx, fmt.Sprintf("%s/many-%d/f-%d", dir, i%sizes.Dirs, i))
			}})
	}
	if sizes.does("reads") {
		steps = append(steps,
			step{"read", sizes.Reads, func(_ string, i int) error { return p.read(ctx, fmt.Sprintf("hot/f-%d", i%hotFiles)) }},
			step{"stat", sizes.Reads, func(_ string, i int) error { return p.read(ctx, fmt.Sprintf("hot/f-%d?stat", i%hotFiles)) }})
		if err := p.mkdir(ctx, "hot"); err != nil {
			return err
		}
		for i := range hotFiles {
			if err := p.putSmall(ctx, fmt.Sprintf("hot/f-%d", i)); err != nil {
				return err
			}
		}
	}
	for run := range sizes.Runs {
		b.note("small files, run %d of %d", run+1, sizes.Runs)
		for _, clients := range sizes.Clients {
			dir := fmt.Sprintf("run-%d-%d", run, clients)
			if err := p.makeDirs(ctx, dir, sizes.Dirs); err != nil {
				return err
			}
			floor, err := measure(bare, clients, sizes.Reads, func(int) error { return p.do(ctx, http.MethodGet, "/healthz", nil, nil) })
			if err != nil {
				return err
			}
			none := all[fmt.Sprintf("%s by %d", bare, clients)]
			none.ratios = append(none.ratios, 1)
			for _, s := range steps {
				rate, err := measure(s.name, clients, s.n, func(i int) error { return s.do(dir, i) })
				if err != nil {
					return err
				}
				op := all[fmt.Sprintf("%s by %d", s.name, clients)]
				op.ratios = append(op.ratios, ratio(rate, floor))
			}
		}
	}
	for _, key := range order {
		op := all[key]
		op.PerSecond, op.Ratio, op.Milliseconds = spreadOf(op.rates), spreadOf(op.ratios), spreadOf(op.took)
		r.Operations = append(r.Operations, *op)
	}
	return b.driveDurability(ctx, p, r)
}

// hotFiles are read again and again.
const hotFiles = 200

func (e *endpoint) makeDirs(ctx context.Context, dir string, n int) error {
	for _, name := range []string{dir, dir + "/one"} {
		if err := e.mkdir(ctx, name); err != nil {
			return err
		}
	}
	for i := range n {
		if err := e.mkdir(ctx, fmt.Sprintf("%s/many-%d", dir, i)); err != nil {
			return err
		}
	}
	return nil
}

// driveStatements sends every operation once and counts what reaches the database.
func (b *bench) driveStatements(ctx context.Context, r *driveReport) (err error) {
	rooms, err := b.driveRooms(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rooms.close()) }()
	if r.Durability, err = durability(ctx, rooms.db); err != nil {
		return err
	}
	deep := fsPath + strings.Join(strings.Split("abcdefghijklmno", ""), "/") // 15 directories
	small := strings.Repeat("x", smallBody)
	for _, s := range []struct {
		operation          string // empty: not counted
		method, path, body string
		limit              float64 // 0: none
	}{
		{"", http.MethodPost, deep + "?op=mkdir", `{"parents":true}`, 0},
		{"", http.MethodPut, deep + "/first", small, 0}, // takes a block of ids and touches the directory
		{"create of an inline file", http.MethodPut, deep + "/f", small, 8},
		{"stat, 16 deep", http.MethodGet, deep + "/f?stat", "", 1},
		{"read of an inline file", http.MethodGet, deep + "/f", "", 2},
		{"HEAD", http.MethodHead, deep + "/f", "", 0},
		{"list", http.MethodGet, deep + "?list", "", 0},
		{"overwrite", http.MethodPut, deep + "/f", small, 0},
		{"create of an object", http.MethodPut, deep + "/o", strings.Repeat("x", 10_000), 0},
		{"read of an object", http.MethodGet, deep + "/o", "", 2},
		{"mkdir", http.MethodPost, deep + "/d?op=mkdir", "", 0},
		{"rename", http.MethodPost, deep + "/o?op=rename", `{"to":"/o2"}`, 0},
		{"copy", http.MethodPost, fsPath + "o2?op=copy", `{"to":"/o3"}`, 0},
		{"remove", http.MethodDelete, fsPath + "o3", "", 0},
		{"recursive delete of a small tree", http.MethodDelete, fsPath + "a?recursive=true", "", 0},
	} {
		before := rooms.db.Statements()
		kind := plainType
		if s.method == http.MethodPost {
			kind = jsonType
		}
		if _, err := rooms.do(ctx, s.method, s.path, s.body, "Content-Type", kind); err != nil {
			return err
		}
		if s.operation == "" {
			continue
		}
		n := rooms.db.Statements() - before
		r.Statements = append(r.Statements, statements{s.operation, n})
		if s.limit > 0 {
			r.Checks = append(r.Checks, atMost("SQL statements, "+s.operation, float64(n), s.limit))
		}
	}
	return nil
}

// openDatabase opens the database of a server that does not run, and its one drive.
func (p *process) openDatabase(ctx context.Context) (*sqldb.DB, tree.FS, error) {
	url := "sqlite:" + filepath.Join(p.dir, "lethe.db")
	for i, arg := range p.args {
		if arg == "--database" {
			url = p.args[i+1]
		}
	}
	db, err := sqldb.Open(ctx, url, sqldb.Config{})
	if err != nil {
		return nil, 0, err
	}
	var fs int64
	if err := db.QueryRow(ctx, "SELECT MIN(fs_id) FROM fs_lock").Scan(&fs); err != nil {
		return nil, 0, errors.Join(err, db.Close())
	}
	return db, tree.FS(fs), nil
}

// filled plants trees, by their names, into the database of a server, which is stopped for
// it.
func (p *process) filled(ctx context.Context, trees map[string]shape) (err error) {
	if err := p.halt(); err != nil {
		return err
	}
	db, fs, err := p.openDatabase(ctx)
	if err != nil {
		return err
	}
	for name, s := range trees {
		if _, err := plant(ctx, db, fs, name, s); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	if err := errors.Join(settled(ctx, db), db.Close()); err != nil {
		return err
	}
	return p.launch(ctx)
}

// driveDurability asks the database of a server, which is stopped for it.
func (b *bench) driveDurability(ctx context.Context, p *process, r *driveReport) error {
	if r.Durability != "" {
		return nil
	}
	if err := p.halt(); err != nil {
		return err
	}
	db, _, err := p.openDatabase(ctx)
	if err != nil {
		return err
	}
	r.Durability, err = durability(ctx, db)
	return errors.Join(err, db.Close())
}
