package purge

import (
	"context"
	"fmt"
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

	own, others []blob.Location
	// older yields the locations of older metadata, once, when a file is met that lies
	// outside: a table that never moved pays nothing for it. Nil when it was asked.
	older   func(ctx context.Context) ([]blob.Location, error)
	answers map[blob.Location]Owner // of directories
}

const maxAnswers = 4096

func newScope(ctx context.Context, host Host, j Job, space *blob.Space, deleteOutside bool) (*scope, error) {
	own, others, err := host.Locations(ctx, j)
	if err != nil {
		return nil, fmt.Errorf("purge: own locations: %w", err)
	}
	return &scope{
		host: host, job: j, space: space, delete: deleteOutside,
		own: own, others: others, answers: map[blob.Location]Owner{},
	}, nil
}

// notes are those of the storage that holds this table's files.
func (s *scope) notes() (notes []string) {
	for _, m := range s.space.Mounts() {
		b, ok := m.Bucket.(blob.Noter)
		if !ok || !slices.ContainsFunc(s.own, m.Root.Overlaps) {
			continue
		}
		for _, note := range b.Notes() {
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
	owner, err := s.whose(ctx, parent(obj.Location))
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
	switch {
	case owner == Other:
		return obj, Foreign, nil
	case owner == Own, s.delete:
		return obj, "", nil
	default:
		return obj, Outside, nil
	}
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
	owner, err := s.whose(ctx, parent(obj.Location))
	if err == nil && owner == Other {
		return obj, Foreign, nil
	}
	return obj, "", err
}

// place tells whether l lies strictly below an own location, or below another's.
func (s *scope) place(l blob.Location) (inside, foreign bool) {
	for _, o := range s.others {
		if o.Contains(l) {
			return false, true
		}
	}
	for _, o := range s.own {
		if o != l && o.Contains(l) {
			return true, false
		}
	}
	return false, false
}

// top returns the own location that holds l, the highest directory that may go with it.
func (s *scope) top(l blob.Location) (blob.Location, bool) {
	for _, o := range s.own {
		if o != l && o.Contains(l) {
			return o, true
		}
	}
	return "", false
}

func (s *scope) whose(ctx context.Context, dir blob.Location) (Owner, error) {
	if owner, ok := s.answers[dir]; ok {
		return owner, nil
	}
	owners, err := s.host.Whose(ctx, s.job, []blob.Location{dir})
	if err != nil {
		return Nobody, fmt.Errorf("purge: whose is %s: %w", dir, err)
	}
	if len(owners) != 1 {
		return Nobody, fmt.Errorf("purge: whose is %s: %d answers", dir, len(owners))
	}
	if len(s.answers) >= maxAnswers {
		clear(s.answers)
	}
	s.answers[dir] = owners[0]
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

// adopt takes over what nobody owns of the locations that are not known as own yet.
func (s *scope) adopt(ctx context.Context, at []blob.Location) error {
	slices.Sort(at)
	var ask []blob.Location
	for _, l := range slices.Compact(at) {
		if slices.ContainsFunc(s.own, func(o blob.Location) bool { return o.Contains(l) }) {
			continue
		}
		if obj, err := s.space.Resolve(string(l)); err != nil || dotted(obj) {
			continue // never ours, whatever the metadata says
		}
		ask = append(ask, l)
	}
	if len(ask) == 0 {
		return nil
	}
	owned, err := s.host.Adopt(ctx, s.job, ask)
	if err != nil {
		return fmt.Errorf("purge: adopt locations: %w", err)
	}
	s.own = append(s.own, owned...)
	return nil
}

// dotted reports a ".." in the key of an object store, where it is an ordinary name:
// the key then lies under one prefix and its cleaned form under another.
func dotted(obj blob.Object) bool {
	return slices.Contains(strings.Split(string(obj.Key), "/"), "..")
}

func parent(l blob.Location) blob.Location {
	return l[:strings.LastIndexByte(string(l), '/')]
}
