package sqldb_test

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// release returns an owner with so many of the files, each with its first line.
func release(marks ...string) sqldb.Migrations {
	files := fstest.MapFS{}
	for i, mark := range marks {
		name := string(rune('a' + i))
		files["migrations/0000"+string(rune('1'+i))+"_"+name+".sql"] = &fstest.MapFile{
			Data: []byte(mark + "\nCREATE TABLE " + name + " (id {serial}){table};\n"),
		}
	}
	return sqldb.Migrations{Owner: "grows", Files: files}
}

func TestMigrationStatus(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, nil, func(t *testing.T, db *sqldb.DB) {
		ctx, all := t.Context(), release("", "-- compatible from 1")
		step := func(version int64, name string, state sqldb.StepState, floor int64) sqldb.Step {
			return sqldb.Step{Owner: "grows", Version: version, Name: name, State: state, Floor: floor}
		}
		status := func(want ...sqldb.Step) {
			t.Helper()
			got, err := db.MigrationStatus(ctx, all)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("status, %v (-want +got):\n%s", err, diff)
			}
		}
		status(step(1, "00001_a", sqldb.StepPending, 1), step(2, "00002_b", sqldb.StepPending, 1))
		for _, table := range []sqldb.Statement{"schema_grows", "schema_floors"} {
			if err := db.Prepare(ctx, "SELECT 1 FROM "+table); err == nil {
				t.Errorf("status made %s", table)
			}
		}
		if err := db.Migrate(ctx, release("")); err != nil {
			t.Fatal(err)
		}
		status(step(1, "00001_a", sqldb.StepApplied, 1), step(2, "00002_b", sqldb.StepPending, 1))
		done, err := db.MigrateUp(ctx, all)
		if diff := cmp.Diff([]sqldb.Step{step(2, "00002_b", sqldb.StepApplied, 1)}, done); diff != "" || err != nil {
			t.Errorf("up, %v (-want +got):\n%s", err, diff)
		}
		if done, err := db.MigrateUp(ctx, all); len(done) > 0 || err != nil {
			t.Errorf("up again: %v, %v", done, err)
		}
		broken := release("", "-- compatible from 1", "")
		broken.Files.(fstest.MapFS)["migrations/00004_d.sql"] = &fstest.MapFile{Data: []byte("CREATE NONSENSE;\n")}
		done, err = db.MigrateUp(ctx, broken)
		if diff := cmp.Diff([]sqldb.Step{step(3, "00003_c", sqldb.StepApplied, 3)}, done); diff != "" || err == nil {
			t.Errorf("up with a broken step, %v (-want +got):\n%s", err, diff)
		}
	})
}

// What a server finds that knows fewer versions than the database has.
func TestOlderServerStarts(t *testing.T) {
	t.Parallel()
	const additive = "-- compatible from 1"
	for name, tt := range map[string]struct {
		newer   []string // marks of the newer release
		knows   int
		refused bool
	}{
		"nothing newer":                  {[]string{"", ""}, 2, false},
		"compatible":                     {[]string{"", additive}, 1, false},
		"several compatible ones":        {[]string{"", additive, additive}, 1, false},
		"not marked":                     {[]string{"", ""}, 1, true},
		"compatible above one that not":  {[]string{"", "", "-- compatible from 1"}, 1, true},
		"but the one that not is known":  {[]string{"", "", "-- compatible from 1"}, 2, false},
		"contract after an expansion":    {[]string{"", additive, "-- compatible from 2"}, 1, true},
		"which the next release made to": {[]string{"", additive, "-- compatible from 2"}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, []sqldb.Migrations{release(tt.newer...)}, func(t *testing.T, db *sqldb.DB) {
				older := release(tt.newer[:tt.knows]...)
				err := db.Migrate(t.Context(), older)
				if errors.Is(err, sqldb.ErrSchemaNewer) != tt.refused || (err != nil) != tt.refused {
					t.Errorf("start: %v, want refused %v", err, tt.refused)
				}
				steps, _ := db.MigrationStatus(t.Context(), older)
				if last := steps[len(steps)-1]; len(steps) != len(tt.newer) || (last.State == sqldb.StepNewer) != (tt.knows < len(tt.newer)) {
					t.Errorf("steps %+v", steps)
				}
			})
		})
	}
}

// A database of a release that noted no floors, and one whose migration is under way.
func TestFloorsThatAreMissing(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{release("", "-- compatible from 1")}, func(t *testing.T, db *sqldb.DB) {
		exec(t, db, "UPDATE schema_floors SET floor = 2") // the version is not there yet
		exec(t, db, "DELETE FROM schema_grows WHERE version_id = 2")
		if err := db.Migrate(t.Context(), release("")); !errors.Is(err, sqldb.ErrSchemaNewer) {
			t.Errorf("while another server migrates: %v", err)
		}
		exec(t, db, "DROP TABLE schema_floors")
		if err := db.Migrate(t.Context(), release("")); err != nil {
			t.Errorf("nothing is newer: %v", err)
		}
		if err := db.Migrate(t.Context(), release("", "-- compatible from 1")); err == nil && db.Dialect().Name != sqldb.MySQL {
			t.Error("the table of step 2 was made twice")
		}
	})
}

func TestWrongMark(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"-- compatible from 0", "-- compatible from 1", "-- compatible from x"} {
		if _, err := sqldb.Known(release(mark)); err == nil {
			t.Errorf("%q is taken", mark)
		}
	}
	if _, err := sqldb.Known(sqldb.Migrations{Owner: "x", Files: fstest.MapFS{"migrations/one_x.sql": {}}}); err == nil {
		t.Error("a file without a number is taken")
	}
}
