package catalog

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

// ownerKind tells whose row of tabular_locations it is.
type ownerKind int

const (
	ownerNamespace ownerKind = 1
	ownerEntry     ownerKind = 2
	ownerJob       ownerKind = 3
)

type owner struct {
	kind ownerKind
	id   int64
}

const (
	insertLocation sqldb.Statement = "{insert ignore} tabular_locations (warehouse_id, location, owner_kind, owner_id) VALUES (?, ?, ?, ?) {ignore}"
	// overlapping asks both directions at once: which entry or job contains the location
	// (its ancestors are listed; a namespace's default parent may), and whose rows it is
	// or contains (a range of the primary key). Its own rows and those it may share are
	// few, so one that hinders is always among the answers.
	overlapping sqldb.Statement = `SELECT location, owner_kind, owner_id FROM tabular_locations WHERE warehouse_id = ? AND location {in} AND owner_kind <> 1
		UNION SELECT location, owner_kind, owner_id FROM tabular_locations WHERE warehouse_id = ? AND location >= ? AND location < ?
		LIMIT 2000`
	// holdersAbove are the entries and jobs that contain one of the locations.
	holdersAbove sqldb.Statement = `SELECT location, owner_kind, owner_id FROM tabular_locations
		WHERE warehouse_id = ? AND location {in} AND owner_kind <> 1 ORDER BY location LIMIT 2000`
	moveLocations   sqldb.Statement = "UPDATE tabular_locations SET owner_kind = ?, owner_id = ? WHERE owner_kind = ? AND owner_id = ?"
	freeLocations   sqldb.Statement = "DELETE FROM tabular_locations WHERE owner_kind = ? AND owner_id = ?"
	selectLocations sqldb.Statement = "SELECT location FROM tabular_locations WHERE owner_kind = ? AND owner_id = ? ORDER BY location"
)

type locationRow struct {
	location string // with its trailing slash
	owner    owner
}

// place cleans a table's location and checks that it lies strictly below one of the
// warehouse's roots.
func place(op string, w *tenant.Warehouse, uri string) (blob.Location, error) {
	if len(uri) > maxLocation {
		return "", fault.New(op, fault.Invalid, CodeBadLocation, "location is longer than %d bytes", maxLocation)
	}
	obj, err := w.Space.Resolve(strings.TrimRight(uri, "/"))
	if err != nil {
		return "", fault.Wrap(op, fault.Invalid, CodeBadLocation, err,
			"location %q is not below the warehouse's storage root or its allowed locations", uri)
	}
	return obj.Location, nil
}

// places cleans all of a table's locations, each once.
func places(op string, w *tenant.Warehouse, uris []string) ([]blob.Location, error) {
	var out []blob.Location
	for _, uri := range uris {
		l, err := place(op, w, uri)
		if err != nil {
			return nil, err
		}
		covered := false
		for _, have := range out {
			covered = covered || have == l
		}
		if !covered {
			out = append(out, l)
		}
	}
	return out, nil
}

// cleaned is the row's location as the rest of the program compares it.
func (r locationRow) cleaned() blob.Location {
	return blob.Location(strings.TrimSuffix(r.location, "/"))
}

// overlaps returns the rows that contain l, are it, or lie inside it, but for the
// namespaces' default parents above it: a table may lie inside one.
func overlaps(ctx context.Context, tx sqldb.Reader, w tenant.WarehouseID, l blob.Location) ([]locationRow, error) {
	// '0' is the byte after '/': the range is everything below the prefix, and itself.
	return readRows(ctx, tx, overlapping, w, sqldb.Strings(l.Ancestors()), w, l.Prefix(), string(l)+"0")
}

func readRows(ctx context.Context, r sqldb.Reader, s sqldb.Statement, args ...any) ([]locationRow, error) {
	rows, err := r.Query(ctx, s, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []locationRow
	for rows.Next() {
		var row locationRow
		if err := rows.Scan(&row.location, &row.owner.kind, &row.owner.id); err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// ownLocations returns what one owner holds.
func ownLocations(ctx context.Context, r sqldb.Reader, o owner) ([]blob.Location, error) {
	rows, err := r.Query(ctx, selectLocations, o.kind, o.id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []blob.Location
	for rows.Next() {
		var prefix string
		if err := rows.Scan(&prefix); err != nil {
			return nil, err
		}
		out = append(out, blob.Location(strings.TrimSuffix(prefix, "/")))
	}
	return out, rows.Err()
}

// claimLocations checks that the warehouse still has the locations and that nobody else
// holds or overlaps them, and writes the owner's rows. Rows of the owners in shared do not hinder. The caller holds the
// warehouse row exclusively.
func claimLocations(ctx context.Context, tx *sqldb.Tx, op string, w tenant.WarehouseID, mine owner, locs []blob.Location, jobs *purge.Store, shared ...owner) error {
	for _, l := range locs {
		held, err := tenant.Holds(ctx, tx, w, l)
		if err != nil {
			return err
		}
		if !held {
			return fault.New(op, fault.Invalid, CodeBadLocation, "location %q is not below the warehouse's storage root or its allowed locations any more", l)
		}
		rows, err := overlaps(ctx, tx, w, l)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r.owner != mine && !slices.Contains(shared, r.owner) {
				return taken(ctx, tx, op, l, r, jobs)
			}
		}
	}
	return addLocations(ctx, tx, w, mine, locs)
}

func addLocations(ctx context.Context, tx *sqldb.Tx, w tenant.WarehouseID, mine owner, locs []blob.Location) error {
	for _, l := range locs {
		if _, err := tx.Exec(ctx, insertLocation, w, l.Prefix(), mine.kind, mine.id); err != nil {
			return err
		}
	}
	return nil
}

// taken names the owner that is in the way.
func taken(ctx context.Context, tx sqldb.Reader, op string, l blob.Location, r locationRow, jobs *purge.Store) error {
	who := "a namespace"
	switch r.owner.kind {
	case ownerEntry:
		who = "another table"
		if id, err := entryName(ctx, tx, r.owner.id); err == nil {
			who = "table " + id.String()
		}
	case ownerJob:
		who = jobs.Name(job.ID(r.owner.id)) + " (an unsettled purge; wait for it, or re-drive or acknowledge it when it failed)"
	case ownerNamespace:
	}
	return fault.New(op, fault.Conflict, CodeLocationTaken, "location %s overlaps %s, which is held by %s", l, r.location, who)
}

// parentLocation is where a namespace's tables live by default.
func parentLocation(w *tenant.Warehouse, n Namespace) string {
	const maxLevel, maxAll = 200, 600
	parts := make([]string, len(n))
	total := 0
	for i, level := range n {
		parts[i] = escapeSegment(level)
		total += len(parts[i])
		if len(parts[i]) > maxLevel {
			return ""
		}
	}
	if total > maxAll {
		return ""
	}
	return joinURI(w.RootURI, path.Join(parts...))
}

// tableLocation is a location that nothing else can ever have.
func tableLocation(parent, name, id string) string {
	const maxName = 80
	escaped := escapeSegment(name)
	if len(escaped) > maxName {
		escaped = "table"
	}
	return joinURI(parent, escaped+"-"+id)
}

func joinURI(base, rest string) string { return strings.TrimRight(base, "/") + "/" + rest }

// escapeSegment makes a level one path segment that means the same to every client:
// everything but letters, digits, '_', '-' and inner dots becomes ~XX. The usual '%' will
// not do: some clients decode file URLs and others do not, and would part a table's
// files into two directories.
func escapeSegment(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "~%02X", c)
		}
	}
	return b.String()
}
