package purge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lethe-project/lethe/internal/blob"
)

// scope decides which files are this table's to delete.
type scope struct {
	host   Host
	job    Job
	space  *blob.Space
	delete bool // what nobody claims is deleted although it lies outside

	own    places // whose files are deleted
	home   places // of these the table's own: they are listed afterwards, and emptied directories go up to them
	others places
	// older yields the locations of older metadata, once, when a file is met that lies
	// outside: a table that never moved pays nothing for it. Nil when it was asked.
	older   func(ctx context.Context) ([]blob.Location, error)
	answers map[blob.Location]Owner // of directories
}

const maxAnswers = 4096

// maxOwn bounds what a job may own while it takes directories outside of its locations.
const maxOwn = 1000

func newScope(ctx context.Context, host Host, j Job, space *blob.Space, deleteOutside bool) (*scope, error) {
	own, others, err := host.Locations(ctx, j)
	if err != nil {
		return nil, fmt.Errorf("purge: own locations: %w", err)
	}
	s := &scope{
		host: host, job: j, space: space, delete: deleteOutside,
		own: places{}, home: places{}, others: places{}, answers: map[blob.Location]Owner{},
	}
	for _, l := range others {
		s.others[l] = struct{}{}
	}
	for _, l := range own {
		s.own[l] = struct{}{}
		if !deleteOutside { // else some of them may be directories that an earlier attempt took
			s.home[l] = struct{}{}
		}
	}
	for _, l := range j.Locations {
		if s.own.has(blob.Location(l)) {
			s.home[blob.Location(l)] = struct{}{}
		}
		own = append(own, blob.Location(l))
	}
	return s, s.inReach(own)
}

// inReach fails when one of the table's own locations lies in no storage root: this
// server lacks it, and would skip as foreign to the warehouse what is to be deleted.
func (s *scope) inReach(own []blob.Location) error {
	for _, l := range own {
		if !slices.ContainsFunc(s.space.Mounts(), func(m blob.Mount) bool { return m.Root.Contains(l) }) {
			return fmt.Errorf("purge: %s is the table's own location and lies in no storage root of warehouse %q on this server: is an allowed location missing in its settings?",
				l, s.job.Warehouse)
		}
	}
	return nil
}

// notes are those of the storage that holds this table's files.
func (s *scope) notes(ctx context.Context) (notes []string) {
	own := slices.Collect(maps.Keys(s.own))
	for _, m := range s.space.Mounts() {
		b, ok := m.Bucket.(blob.Noter)
		if !ok || !slices.ContainsFunc(own, m.Root.Overlaps) {
			continue
		}
		for _, note := range b.Notes(ctx) {
			if !slices.Contains(notes, note) { // two roots may lie in one bucket
				notes = append(notes, note)
			}
		}
	}
	return notes
}

// judge resolves a path that metadata names. An empty reason means that the object is to be deleted.
func (s *scope) judge(ctx context.Context, uri string) (blob.Object, Reason, error) {
	obj, err := s.space.Resolve(uri)
	if err != nil || dotted(obj) {
		return blob.Object{}, OutsideRoots, nil //nolint:nilerr // every error means: not in this space
	}
	inside, foreign := s.place(obj.Location)
	switch {
	case foreign:
		return obj, Foreign, nil
	case inside:
		return obj, "", nil
	}
	dir := parent(obj.Location)
	owner, err := s.whose(ctx, dir)
	if err != nil {
		return obj, "", err
	}
	if owner == Nobody && s.older != nil {
		if err := s.adoptOlder(ctx); err != nil {
			return obj, "", err
		}
		if inside, _ := s.place(obj.Location); inside {
			return obj, "", nil
		}
	}
	if owner == Nobody && s.delete && len(s.own) < maxOwn {
		if owner, err = s.take(ctx, dir); err != nil {
			return obj, "", err
		}
	}
	switch owner {
	case Own:
		return obj, "", nil
	case Other:
		return obj, Foreign, nil
	case Nobody:
	}
	return obj, Outside, nil
}

// take makes a directory that is nobody's the job's own, so that it is nobody else's
// before its files are gone.
func (s *scope) take(ctx context.Context, dir blob.Location) (Owner, error) {
	owned, err := s.claim(ctx, []blob.Location{dir})
	if err != nil {
		return Nobody, err
	}
	owner := Other // it is somebody's by now, or holds what is somebody's
	if slices.Contains(owned, dir) {
		owner = Own
	}
	s.answers[dir] = owner
	return owner, nil
}

// judgeRoot is judge for the root metadata file: it counts as inside unless another owns it.
func (s *scope) judgeRoot(ctx context.Context, uri string) (blob.Object, Reason, error) {
	obj, err := s.space.Resolve(uri)
	if err != nil || dotted(obj) {
		return blob.Object{}, OutsideRoots, nil //nolint:nilerr // every error means: not in this space
	}
	inside, foreign := s.place(obj.Location)
	if inside || foreign {
		if foreign {
			return obj, Foreign, nil
		}
		return obj, "", nil
	}
	owner, err := s.ask(ctx, parent(obj.Location)) // what was answered an hour ago may have changed
	if err == nil && owner == Other {
		return obj, Foreign, nil
	}
	return obj, "", err
}

// place tells whether l lies strictly below an own location, or below another's.
func (s *scope) place(l blob.Location) (inside, foreign bool) {
	if s.others.holds(l) {
		return false, true
	}
	return s.own.holds(parent(l)), false
}

// top returns the highest directory that may go with l: the outermost location of the
// table that holds it, or what was taken outside.
func (s *scope) top(l blob.Location) (blob.Location, bool) {
	if top, ok := s.home.highest(parent(l)); ok {
		return top, true
	}
	return s.own.nearest(parent(l))
}

// homes returns the table's own locations, without those that another contains.
func (s *scope) homes() (out []blob.Location) {
	for l := range s.home {
		if !s.home.holds(parent(l)) {
			out = append(out, l)
		}
	}
	slices.Sort(out)
	return out
}

// whose is ask, for a directory that was perhaps asked about before.
func (s *scope) whose(ctx context.Context, dir blob.Location) (Owner, error) {
	if owner, ok := s.answers[dir]; ok {
		return owner, nil
	}
	owner, err := s.ask(ctx, dir)
	if err != nil {
		return Nobody, err
	}
	if len(s.answers) >= maxAnswers {
		clear(s.answers)
	}
	s.answers[dir] = owner
	return owner, nil
}

func (s *scope) ask(ctx context.Context, dir blob.Location) (Owner, error) {
	owners, err := s.host.Whose(ctx, s.job, []blob.Location{dir})
	if err != nil {
		return Nobody, fmt.Errorf("purge: whose is %s: %w", dir, err)
	}
	if len(owners) != 1 {
		return Nobody, fmt.Errorf("purge: whose is %s: %d answers", dir, len(owners))
	}
	return owners[0], nil
}

func (s *scope) adoptOlder(ctx context.Context) error {
	older := s.older
	s.older = nil
	at, err := older(ctx)
	if err != nil {
		s.older = older
		return err
	}
	return s.adopt(ctx, at)
}

// adopt makes the table's home what nobody owns of the locations that it claims.
func (s *scope) adopt(ctx context.Context, at []blob.Location) error {
	slices.Sort(at)
	var ask []blob.Location
	for _, l := range slices.Compact(at) {
		switch {
		case s.own.has(l):
			s.home[l] = struct{}{}
		case !s.home.holds(l):
			ask = append(ask, l)
		}
	}
	owned, err := s.claim(ctx, ask)
	for _, l := range owned {
		s.home[l] = struct{}{}
	}
	return err
}

// claim asks the host for those of the locations that this job may own at all.
func (s *scope) claim(ctx context.Context, at []blob.Location) (owned []blob.Location, err error) {
	at = slices.DeleteFunc(at, func(l blob.Location) bool {
		obj, err := s.space.Resolve(string(l))
		return err != nil || dotted(obj) // never ours, whatever the metadata says
	})
	if len(at) == 0 {
		return nil, nil
	}
	if owned, err = s.host.Adopt(ctx, s.job, at); err != nil {
		return nil, fmt.Errorf("purge: adopt locations: %w", err)
	}
	for _, l := range owned {
		s.own[l] = struct{}{}
	}
	return owned, nil
}

// uri returns the location of a key of one of the space's buckets.
func (s *scope) uri(bucket blob.Bucket, key blob.Key) string {
	for _, m := range s.space.Mounts() {
		if m.Bucket == bucket {
			return string(m.Root) + "/" + string(key)
		}
	}
	return string(key)
}

// dotted reports a ".." in the key of an object store, where it is an ordinary name:
// the key then lies under one prefix and its cleaned form under another.
func dotted(obj blob.Object) bool {
	key := string(obj.Key)
	return strings.Contains(key, "..") && slices.Contains(strings.Split(key, "/"), "..")
}
