package tree_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// Nothing on a request path, in a sweep or in a reconcile reads more of a drive than it
// was asked for, whatever the engine knows of the tables: nothing, what they were once, that
// they were empty while they had pages (an autovacuum that saw them before the commit), or
// all.
func TestPlans(t *testing.T) {
	t.Parallel()
	for _, statistics := range []string{never, stale, uncommitted, tiny} {
		t.Run(statistics, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, []sqldb.Migrations{tree.Migrations}, func(t *testing.T, db *sqldb.DB) {
				t.Helper()
				if (statistics == uncommitted || statistics == tiny) && db.Dialect().Name != sqldb.Postgres {
					return // the others count what is not committed
				}
				b := &bench{Tree: tree.New(db), t: t, db: db, fs: 7}
				for _, table := range tables {
					switch db.Dialect().Name {
					case sqldb.Postgres:
						b.run("ALTER TABLE " + table + " SET (autovacuum_enabled = false)")
					case sqldb.MySQL:
						b.run("ALTER TABLE " + table + " STATS_AUTO_RECALC = 0")
					case sqldb.SQLite:
					}
				}
				b.create()
				switch statistics {
				case stale:
					b.analyze()
				case tiny:
					b.tx(func(ctx context.Context, tx *sqldb.Tx) error {
						return b.InsertAll(ctx, tx, b.fs, []tree.Node{{Parent: tree.Root, Name: "a", Inode: 16, Kind: tree.Directory}, {Parent: 16, Name: "b", Inode: 17, Kind: tree.File}})
					})
				}
				dirs, files := b.skewed(statistics)
				b.plans(statistics, dirs, files)
				if statistics == never {
					b.analyze()
					t.Run("analyzed", func(t *testing.T) { (&bench{Tree: b.Tree, t: t, db: db, fs: 7}).plans(statistics, dirs, files) })
				}
			})
		})
	}
}

const never, stale, uncommitted, tiny = "never analyzed", "stale", "analyzed before the commit", "analyzed when nearly empty"

var tables = []string{"file_nodes", "inodes", "file_tags"}

// skewed fills the drive: a directory of 5,000 files beside 1,000 of 2. A second drive is
// as large, so that a drive is not the whole table.
func (b *bench) skewed(statistics string) (dirs, files []tree.Inode) {
	b.t.Helper()
	small := &bench{Tree: b.Tree, t: b.t, db: b.db, fs: 8}
	small.create()
	b.tx(func(ctx context.Context, tx *sqldb.Tx) error {
		for _, d := range []*bench{b, small} {
			dirs, files = nil, nil
			var nodes []tree.Node
			add := func(parent tree.Inode, kind tree.Kind, i int) tree.Inode {
				ino := tree.Inode(100 + len(nodes))
				nodes = append(nodes, tree.Node{Parent: parent, Name: fmt.Sprintf("n%05d", i), Inode: ino, Kind: kind})
				return ino
			}
			dirs = append(dirs, add(tree.Root, tree.Directory, 0))
			for i := range 5_000 {
				files = append(files, add(dirs[0], tree.File, i))
			}
			for i := range 1000 {
				dirs = append(dirs, add(tree.Root, tree.Directory, i+1))
				for k := range 2 {
					files = append(files, add(dirs[i+1], tree.File, k))
				}
			}
			if err := d.InsertAll(ctx, tx, d.fs, nodes); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "INSERT INTO file_tags (fs_id, inode_id, name, value) SELECT fs_id, inode_id, 'n00000', 'v' FROM inodes WHERE fs_id = ?", int64(d.fs)); err != nil {
				return err
			}
		}
		if statistics == uncommitted || statistics == tiny { // on a connection of its own, as autovacuum
			b.analyze()
		}
		return nil
	})
	return dirs, files
}

func (b *bench) run(s string) {
	b.t.Helper()
	if _, err := b.db.Exec(b.t.Context(), sqldb.Statement(s)); err != nil {
		b.t.Fatalf("%s: %v", s, err)
	}
}

func (b *bench) analyze() {
	b.t.Helper()
	switch b.db.Dialect().Name {
	case sqldb.MySQL:
		rows, err := b.db.Query(b.t.Context(), "ANALYZE TABLE file_nodes, inodes, file_tags")
		if err == nil {
			err = rows.Close()
		}
		if err != nil {
			b.t.Fatal(err)
		}
	case sqldb.Postgres, sqldb.SQLite:
		b.run("ANALYZE")
	}
}

func ids(of []tree.Inode) sqldb.IDs {
	list := make(sqldb.IDs, len(of))
	for i, ino := range of {
		list[i] = int64(ino)
	}
	slices.Sort(list)
	return list
}

func (b *bench) plans(statistics string, dirs, files []tree.Inode) {
	b.t.Helper()
	fs, dir, file, name := int64(b.fs), int64(dirs[0]), int64(files[0]), "n00000"
	type plan struct {
		name string
		s    sqldb.Statement
		args []any
	}
	request := []plan{
		{"get", tree.StatementGet, []any{fs, file}},
		{"list", tree.StatementList, []any{fs, dir, "n00100", 1000}},
		{"list of a small one", tree.StatementList, []any{fs, int64(dirs[5]), "", 1000}},
		{"lock shared", tree.StatementLockShared, []any{ids(dirs[:2]), fs}},
		{"lock one shared", tree.StatementLockShared, []any{ids(dirs[:1]), fs}},
		{"lock", tree.StatementLock, []any{ids(files[:1]), fs}},
		{"dentries", tree.StatementDentries, []any{fs, file, 100}},
		{"childless", tree.StatementChildless, []any{fs, dir}},
		{"remove", tree.StatementRemove, []any{fs, dir, name, file}},
		{"move", tree.StatementMove, []any{dir, "new", fs, dir, name, file}},
		{"link", tree.StatementRaise, []any{1, fs, file}},
		{"content", tree.StatementUpdate, []any{1, 1, 1, 1, fs, file}},
		{"mode", tree.StatementMode, []any{1, 1, fs, file}},
		{"touch", tree.StatementTouch, []any{1, 1, fs, dir, 1}},
		{"tags", tree.StatementTags, []any{fs, file}},
		{"tag", tree.StatementTag, []any{"v", fs, file, name}},
		{"untag", tree.StatementRemoveTag, []any{fs, file, name}},
		{"climb", tree.Up, []any{fs, dir}},
		{"delete one inode", tree.StatementInode, []any{fs, file}},
		{"lower one's links", tree.StatementLowerOne, []any{1, fs, file}},
		{"delete one's tags", tree.StatementDeleteTagsOf, []any{fs, file}},
	}
	request = append(request,
		plan{"note tag", tree.StatementNoteTags, []any{1, fs, file}},
		plan{"set times", tree.StatementTimes, []any{1, 1, fs, file}},
		plan{"has entry", tree.StatementEntryIs, []any{fs, dir, name, file}},
	)
	for _, n := range []int{1, 3, 16} {
		args := make([]any, 0, n+2)
		for range n {
			args = append(args, name)
		}
		request = append(request, plan{"resolve " + strconv.Itoa(n), tree.Down[n-1], append(args, fs, int64(tree.Root))})
	}
	const batch = 500
	some, these := ids(dirs[1:batch+1]), ids(files[:batch])
	sweep := []plan{
		{"children", tree.StatementChildren, []any{some, fs, batch + 1}},
		{"children of a large one", tree.StatementChildren, []any{ids(dirs[:1]), fs, batch + 1}},
		{"slice", tree.StatementSlice, []any{fs, dir, "n00100", batch + 1}},
		{"lock directories", tree.StatementLock, []any{some, fs}},
		{"lock files", tree.StatementLock, []any{these, fs}},
		{"files", tree.StatementFilesOf, []any{fs, some}},
		{"files between", tree.StatementFiles, []any{fs, dir, "n00100", "n01000"}},
		{"delete files", tree.StatementDeleteOf, []any{fs, some}},
		{"delete files between", tree.StatementDelete, []any{fs, dir, "n00100", "n01000"}},
		{"directories", tree.StatementDirectories, []any{fs, some}},
		{"delete directories", tree.StatementDeleteDirs, []any{fs, some, some}},
		{"delete inodes", tree.StatementInodes, []any{fs, these}},
		{"lower links", tree.StatementLower, []any{1, fs, these}},
		{"delete tags", tree.StatementDeleteTags, []any{fs, these}},
		{"parents after", tree.StatementParentsAfter, []any{fs, dir, batch}},
		{"inodes after", tree.StatementInodesAfter, []any{fs, dir, batch}},
		{"present", tree.StatementPresent, []any{fs, these}},
		{"named", tree.StatementNamed, []any{fs, these}},
		{"has entry, reconcile", tree.StatementEntryIs, []any{fs, dir, name, file}},
		{"delete trashed", tree.StatementDeleteTrashed, []any{fs, sqldb.Strings{"1", "2", "n00003"}}},
	}
	if statistics == tiny {
		// Two rows in many pages: only a switch of the session keeps PostgreSQL from reading
		// them all, and those of requests have none.
		request = nil
	}
	for _, p := range request {
		b.plan(b.db, p.name, p.s, p.args)
	}
	for _, p := range sweep {
		b.plan(b.db.Sweeper(), p.name, p.s, p.args)
	}
}

// plan fails the test if the statement scans a table, or its part of a whole drive.
func (b *bench) plan(db *sqldb.DB, name string, s sqldb.Statement, args []any) {
	b.t.Helper()
	explain := map[sqldb.Name]func(*sqldb.DB, sqldb.Statement, []any) (plan []string, bad string){
		sqldb.SQLite: b.planSQLite, sqldb.MySQL: b.planMySQL, sqldb.Postgres: b.planPostgres,
	}[db.Dialect().Name]
	if plan, bad := explain(db, s, args); bad != "" {
		b.t.Errorf("%s: %s\n%s", name, bad, strings.Join(plan, "\n"))
	}
}

func (b *bench) planSQLite(db *sqldb.DB, s sqldb.Statement, args []any) (plan []string, bad string) {
	b.t.Helper()
	for _, r := range b.read(db, "EXPLAIN QUERY PLAN "+s, args...) {
		line := r["detail"]
		plan = append(plan, line)
		switch {
		case strings.HasPrefix(line, "SCAN") && line != "SCAN r" && line != "SCAN CONSTANT ROW":
			bad = "a scan"
		case strings.HasSuffix(line, "(fs_id=?)"):
			bad = "the whole drive"
		case strings.Contains(line, "TEMP B-TREE"):
			bad = "a sort"
		}
	}
	return plan, bad
}

func (b *bench) planMySQL(db *sqldb.DB, s sqldb.Statement, args []any) (plan []string, bad string) {
	b.t.Helper()
	for _, r := range b.read(db, "EXPLAIN "+s, args...) {
		plan = append(plan, fmt.Sprint(r["table"], " ", r["type"], " ", r["key"], " ", r["key_len"], " ", r["Extra"]))
		switch {
		case r["type"] == "ALL" || r["type"] == "index":
			bad = "a scan"
		case r["key_len"] == "8":
			bad = "the whole drive"
		case strings.Contains(r["Extra"], "filesort") || strings.Contains(r["Extra"], "temporary"):
			bad = "a sort"
		}
	}
	return plan, bad
}

var byKey = regexp.MustCompile(`inode_id|parent_id`)

// planPostgres looks at both plans that the driver's prepared statement can get.
func (b *bench) planPostgres(db *sqldb.DB, s sqldb.Statement, args []any) (plan []string, bad string) {
	b.t.Helper()
	text, args, err := db.Dialect().Render(s, args)
	if err != nil {
		b.t.Fatal(err)
	}
	var values []string
	for _, a := range args {
		switch a := a.(type) {
		case []string:
			values = append(values, "'{"+strings.Join(a, ",")+"}'")
		case []int64:
			values = append(values, "'{"+strings.Trim(strings.ReplaceAll(fmt.Sprint(a), " ", ","), "[]")+"}'")
		default:
			values = append(values, fmt.Sprintf("'%v'", a))
		}
	}
	execute := "EXPLAIN EXECUTE p (" + strings.Join(values, ",") + ")"
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		err := db.Tx(b.t.Context(), func(tx *sqldb.Tx) error {
			for _, s := range []string{"SET LOCAL plan_cache_mode = " + mode, "PREPARE p AS " + text} {
				if _, err := tx.Exec(b.t.Context(), sqldb.Statement(s)); err != nil {
					return err
				}
			}
			for _, r := range b.read(tx, sqldb.Statement(execute)) {
				line := r["QUERY PLAN"]
				plan = append(plan, line)
				switch {
				case strings.Contains(line, "Seq Scan"):
					bad = "a scan with " + mode
				case strings.Contains(line, "Index Cond") && !byKey.MatchString(line):
					bad = "the whole drive with " + mode
				case strings.Contains(line, "Sort"):
					bad = "a sort with " + mode
				}
			}
			_, err := tx.Exec(b.t.Context(), "DEALLOCATE p")
			return err
		})
		if err != nil {
			b.t.Fatalf("%s: %v", text, err)
		}
	}
	return plan, bad
}

// read returns the rows of a query by the names of their columns.
func (b *bench) read(r sqldb.Reader, s sqldb.Statement, args ...any) (out []map[string]string) {
	b.t.Helper()
	rows, err := r.Query(b.t.Context(), s, args...)
	if err != nil {
		b.t.Fatalf("%s: %v", s, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		b.t.Fatal(err)
	}
	for rows.Next() {
		values, dest := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			b.t.Fatal(err)
		}
		row := map[string]string{}
		for i, v := range values {
			if text, ok := v.([]byte); ok {
				v = string(text)
			}
			if v != nil {
				row[columns[i]] = fmt.Sprint(v)
			}
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		b.t.Fatal(err)
	}
	return out
}
