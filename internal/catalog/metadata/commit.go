package metadata

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// defaultFormatVersion is that of a table created by a commit that names none.
const defaultFormatVersion = 2

// maxUpdates bounds a commit: the library looks through all earlier updates for each
// ref, and a large body could keep it busy for minutes.
const maxUpdates = 10_000

// Commit is a decoded commit of one table: requirements and updates. It is immutable;
// Check and Apply may be repeated on newer metadata.
type Commit struct {
	requirements  table.Requirements
	replay        replay[update]
	assertsCreate bool
}

// Result is what a commit makes of a table.
type Result struct {
	Table   *Table
	Changed bool // false: nothing to write, Table is the base

	// DroppedLogs are metadata files that fell off the metadata log, to be deleted
	// after the commit. Empty unless write.metadata.delete-after-commit.enabled.
	DroppedLogs []string
}

// DecodeCommit reads requirements and updates of a commit; an identifier beside them is
// the caller's business.
func DecodeCommit(body []byte, limits Limits) (c *Commit, err error) {
	const op, what = "metadata.DecodeCommit", "commit request"
	defer guard(op, what, &err)
	if err := limits.check(body); err != nil {
		return nil, invalid(op, what, err)
	}
	var wire struct {
		Requirements table.Requirements `json:"requirements"`
		Updates      []json.RawMessage  `json:"updates"`
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		return nil, invalid(op, what, err)
	}
	c = &Commit{requirements: wire.Requirements}
	if c.replay, err = decodeUpdates(op, what, actions, maxUpdates, wire.Updates); err != nil {
		return nil, err
	}
	for _, r := range wire.Requirements {
		c.assertsCreate = c.assertsCreate || isAssertCreate(r)
	}
	return c, nil
}

// AssertsCreate reports whether the commit creates its table.
func (c *Commit) AssertsCreate() bool { return c.assertsCreate }

// ChangesLocation reports whether the commit names one of the places that
// Table.Locations returns; it may still name the one that the table has.
func (c *Commit) ChangesLocation() bool { return c.replay.changesLocation }

// Check tests the requirements against a table, or against none when t is nil. One that
// does not hold is a Conflict.
func (c *Commit) Check(t *Table) (err error) {
	const op = "metadata.Commit.Check"
	defer guard(op, "commit requirement", &err)
	var meta table.Metadata // stays a nil interface: assert-create tests for that
	if t != nil {
		meta = t.meta
	}
	for _, r := range c.requirements {
		if err := r.Validate(meta); err != nil {
			return conflictf(op, "%s", sentence(err))
		}
	}
	return nil
}

// Apply makes the next version of base, whose file lies at baseLocation and joins the
// metadata log. It does not test the requirements.
func (c *Commit) Apply(base *Table, baseLocation string) (res *Result, err error) {
	const op, what = "metadata.Commit.Apply", "commit"
	defer guard(op, what, &err)
	b, err := table.MetadataBuilderFromBase(base.meta, baseLocation)
	if err != nil {
		return nil, refused(op, what, err)
	}
	if err := c.apply(op, editTable(b, base.meta)); err != nil {
		return nil, err
	}
	if !b.HasChanges() {
		return &Result{Table: base}, nil
	}
	next, err := finish(op, what, b)
	if err != nil {
		return nil, err
	}
	res = &Result{Table: next, Changed: true}
	if strings.EqualFold(next.Property(deleteAfterCommit, ""), "true") {
		kept := next.PreviousFiles()
		for _, file := range base.PreviousFiles() {
			if !slices.Contains(kept, file) && file != baseLocation {
				res.DroppedLogs = append(res.DroppedLogs, file)
			}
		}
	}
	return res, nil
}

// Build makes the first version of a table that the commit creates.
func (c *Commit) Build() (t *Table, err error) {
	const op, what = "metadata.Commit.Build", "create by commit"
	defer guard(op, what, &err)
	for _, r := range c.requirements {
		if !isAssertCreate(r) {
			return nil, refusedf(op, "%s: requirement %s cannot hold for a new table", what, r.GetType())
		}
	}
	version := defaultFormatVersion
	for _, u := range c.replay.updates {
		if up, ok := u.(*upgradeFormat); ok {
			version = up.Version
			break
		}
	}
	b, err := table.NewMetadataBuilder(version)
	if err != nil {
		return nil, refused(op, what, err)
	}
	if err := b.SetUUID(uuid.New()); err != nil {
		return nil, refused(op, what, err)
	}
	ed := newTable(b, version)
	if err := c.apply(op, ed); err != nil {
		return nil, err
	}
	if !ed.chosen {
		return nil, refusedf(op, "%s: no update sets the current schema", what)
	}
	if err := ed.addDefaults(); err != nil {
		return nil, refused(op, what, err)
	}
	return finish(op, what, b)
}

func (c *Commit) apply(op string, ed *editor) error {
	return c.replay.run(op, func(u update) error { return u.apply(ed) })
}

func isAssertCreate(r table.Requirement) bool { return r.GetType() == "assert-create" }

const requirementFailed = "Requirement failed: "

// wording turns the library's requirement errors into the words of Java's, which people
// search for and clients' tests expect.
var wording = strings.NewReplacer(
	"requirement failed: ", requirementFailed,
	"UUID mismatch:", "UUID does not match: expected",
	"last assigned field id has changed", "last assigned field id changed",
	"current schema id has changed", "current schema changed",
	"last assigned partition id has changed", "last assigned partition id changed",
	"default spec id has changed", "default partition spec changed",
	"default sort order id has changed", "default sort order changed",
)

func sentence(err error) string { return wording.Replace(err.Error()) }
