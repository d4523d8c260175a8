package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// ErrSchemaNewer is returned for a database that a newer release has changed in a way
// that this one cannot work with.
var ErrSchemaNewer = errors.New("sqldb: the schema is of a newer release")

// StepState is where a migration stands.
type StepState string

// The states.
const (
	StepApplied StepState = "applied"
	StepPending StepState = "pending"
	StepNewer   StepState = "newer" // the database has it, this program does not know it
)

// Step is one migration of an owner.
type Step struct {
	Owner   string
	Version int64
	Name    string // of the file, without .sql; empty when newer
	State   StepState
	// Floor is the least version of this owner that a server must know to work on a
	// schema with this step: at most Version. 0 when newer and nobody noted it.
	Floor int64
}

// Pending returns those of the steps that are not applied yet.
func Pending(steps []Step) []Step {
	return slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return s.State != StepPending })
}

// Known returns an owner's steps in order, all pending: the status of a database that
// is not there yet.
func Known(owners ...Migrations) ([]Step, error) {
	var all []Step
	for _, o := range owners {
		steps, err := o.steps()
		if err != nil {
			return nil, fmt.Errorf("sqldb: migrations of %s: %w", o.Owner, err)
		}
		for _, s := range steps {
			all = append(all, s.Step)
		}
	}
	return all, nil
}

// MigrationStatus lists the owners' migrations with their state and changes nothing. The
// steps are valid also beside ErrSchemaNewer.
func (db *DB) MigrationStatus(ctx context.Context, owners ...Migrations) ([]Step, error) {
	var all []Step
	var refused []error
	for _, o := range owners {
		steps, err := db.status(ctx, o)
		if err != nil && !errors.Is(err, ErrSchemaNewer) {
			return nil, fmt.Errorf("sqldb: migrations of %s: %w", o.Owner, err)
		}
		all, refused = append(all, steps...), append(refused, err)
	}
	return all, errors.Join(refused...)
}

const (
	selectFloor Statement = "SELECT floor FROM schema_floors WHERE owner = ?"
	insertFloor Statement = "INSERT INTO schema_floors (floor, owner) VALUES (?, ?)"
	updateFloor Statement = "UPDATE schema_floors SET floor = ? WHERE owner = ?"
	createFloor Statement = "CREATE TABLE IF NOT EXISTS schema_floors (owner {name:64} NOT NULL, floor BIGINT NOT NULL, PRIMARY KEY (owner)){table}"
)

// status compares an owner's files with what the database has.
func (db *DB) status(ctx context.Context, o Migrations) ([]Step, error) {
	known, err := o.steps()
	if err != nil {
		return nil, err
	}
	applied, err := db.applied(ctx, "schema_"+o.Owner)
	if err != nil {
		return nil, err
	}
	var steps []Step
	var newest int64
	for _, k := range known {
		if slices.Contains(applied, k.Version) {
			k.State = StepApplied
		}
		steps, newest = append(steps, k.Step), k.Version
	}
	beyond := slices.DeleteFunc(applied, func(v int64) bool { return v <= newest })
	var floor int64
	there, err := db.hasTable(ctx, "schema_floors")
	if err == nil && there {
		err = db.QueryRow(ctx, selectFloor, o.Owner).Scan(&floor)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	for _, v := range beyond {
		steps = append(steps, Step{Owner: o.Owner, Version: v, State: StepNewer, Floor: floor})
	}
	// A floor without its version is a migration that was cut short, or is under way.
	if floor > newest || (floor == 0 && len(beyond) > 0) {
		return steps, fmt.Errorf("%w: %s is at version %d, which needs a server that knows version %d, and this one knows %d: run the newer release",
			ErrSchemaNewer, o.Owner, max(floor, slices.Max(append(beyond, 0))), max(floor, newest+1), newest)
	}
	return steps, nil
}

// applied reads a version table, which need not be there.
func (db *DB) applied(ctx context.Context, table string) (versions []int64, err error) {
	if there, err := db.hasTable(ctx, table); err != nil || !there {
		return nil, err
	}
	rows, err := db.Query(ctx, Statement("SELECT DISTINCT version_id FROM "+table+" WHERE version_id > 0"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var v int64
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		versions = append(versions, v)
	}
	slices.Sort(versions)
	return versions, rows.Err()
}

func (db *DB) hasTable(ctx context.Context, table string) (bool, error) {
	look := map[Name]Statement{
		SQLite:   "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?",
		Postgres: "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = ?",
		MySQL:    "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?",
	}[db.dialect.Name]
	var n int
	err := db.QueryRow(ctx, look, table).Scan(&n)
	return n > 0, err
}

// step is a Step with its text.
type step struct {
	Step
	text string
}

// compatible begins the line of a file that says which older servers may go on.
const compatible = "-- compatible from "

// steps reads an owner's files in order. Every Floor counts those of the steps below it.
func (m Migrations) steps() ([]step, error) {
	names, err := fs.Glob(m.Files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	out := make([]step, 0, len(names))
	for _, name := range names {
		base := strings.TrimSuffix(path.Base(name), ".sql")
		number, _, _ := strings.Cut(base, "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		text, err := fs.ReadFile(m.Files, name)
		if err != nil {
			return nil, err
		}
		floor, err := floorOf(string(text), version)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, step{Step{Owner: m.Owner, Version: version, Name: base, State: StepPending, Floor: floor}, string(text)})
	}
	slices.SortFunc(out, func(a, b step) int { return int(a.Version - b.Version) })
	for i := 1; i < len(out); i++ {
		out[i].Floor = max(out[i].Floor, out[i-1].Floor)
	}
	return out, nil
}

// floorOf reads the mark of a migration; without one, servers must know its version.
func floorOf(text string, version int64) (int64, error) {
	for line := range strings.Lines(text) {
		from, ok := strings.CutPrefix(strings.TrimSpace(line), compatible)
		if !ok {
			continue
		}
		floor, err := strconv.ParseInt(from, 10, 64)
		if err == nil && (floor < 1 || floor >= version) {
			err = fmt.Errorf("version %d cannot be compatible from %d", version, floor)
		}
		return floor, err
	}
	return version, nil
}
