package purge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/pace"
	"github.com/lethe-project/lethe/internal/purge/tablefile"
)

// olderGroup is how many older metadata files go in one step: first the statistics that
// all of them name, then they. All are named by one log of a file that still stands, so
// that whatever a crash leaves is reachable.
const olderGroup = 100

// olderFile is one metadata file on the way from the root through logs of logs.
type olderFile struct {
	uri   string
	obj   blob.Object
	why   Reason // not empty: the file itself is skipped
	stats []string
	log   []string
	next  int         // in log
	group []olderFile // of its log, read, with nothing left below them
}

// older goes depth first through the logs, oldest first: a file's turn comes when all
// that its own log names is gone. Snapshots that only older files know were expired and
// are not walked. The root's own statistics come last.
func (a *walk) older(ctx context.Context, s *sink) error {
	stats := newSeen(seenFiles)
	met := map[object]struct{}{a.object(a.job.MetadataLocation): {}}
	settled := a.from.low.snapshot // files deleted, over all attempts: the measure of progress
	stack := []*olderFile{{uri: a.job.MetadataLocation, stats: a.root.Statistics, log: a.root.Log}}
	for {
		f := stack[len(stack)-1]
		switch {
		case f.next < len(f.log) && len(f.group) < olderGroup:
			uri := f.log[f.next]
			f.next++
			name := a.object(uri)
			if _, known := met[name]; known {
				continue
			}
			if len(met) >= a.cfg.MaxOlder {
				return fmt.Errorf("purge: more than %d older metadata files", a.cfg.MaxOlder)
			}
			met[name] = struct{}{}
			child, err := a.olderFile(ctx, s, settled, uri)
			if err != nil {
				return err
			}
			if child != nil {
				stack = append(stack, child)
			} else if !s.settledSoFar() { // it and everything newer stay
				return a.olderGroup(ctx, s, stats, f, &settled)
			}
		case len(f.group) > 0:
			if err := a.olderGroup(ctx, s, stats, f, &settled); err != nil || !s.clean() {
				return err
			}
			if err := a.tick(ctx, s); err != nil {
				return err
			}
		case len(stack) > 1:
			stack = stack[:len(stack)-1]
			top := stack[len(stack)-1]
			f.log = nil
			top.group = append(top.group, *f)
		default:
			return a.statistics(ctx, s, stats, f.stats, settled)
		}
	}
}

// olderFile reads one older file. Nil without an error: there is nothing to be done for
// it, or it is a bad unit of the pass now.
func (a *walk) olderFile(ctx context.Context, s *sink, settled int64, uri string) (*olderFile, error) {
	at := position{snapshot: settled}
	obj, why, err := a.scope.judge(ctx, uri)
	if err != nil {
		return nil, err
	}
	if why == OutsideRoots {
		s.trouble(at, at, func(u *unit) { s.skip(u, why, uri, 1) })
		return nil, nil
	}
	m, err := a.readMetadata(ctx, obj)
	if blob.IsNotExist(err) { // trimmed from the log and deleted, or gone by an earlier attempt
		s.trouble(at, at, s.missing)
		return nil, nil
	}
	if why != "" && tablefile.IsUnreadable(err) { // not ours, and nothing of it is: no damage
		s.trouble(at, at, func(u *unit) { s.skip(u, why, uri, 1) })
		return nil, nil
	}
	if err != nil {
		return nil, a.unread(ctx, s, uri, err, func(mark func(*unit)) { s.trouble(at, at, mark) })
	}
	f := &olderFile{uri: uri, obj: obj, why: why, stats: m.Statistics}
	if followed, _ := a.related(m, obj); followed {
		f.log = m.Log
	}
	return f, nil
}

// related tells whether older metadata is this table's, so that its log is followed: it
// has the table's uuid, or was written before the table had one and lies in a place of
// its own. Another table's history is not ours to follow. Its locations are trusted
// only if nothing but the table itself can have written them.
func (a *walk) related(m *tablefile.Metadata, obj blob.Object) (followed, trusted bool) {
	if m.UUID != "" {
		same := strings.EqualFold(m.UUID, a.root.UUID)
		return same, same
	}
	inside, _ := a.scope.place(obj.Location)
	return inside, inside && a.root.UUID == ""
}

// olderGroup deletes a group: what it names, proven, before the files themselves.
func (a *walk) olderGroup(ctx context.Context, s *sink, met *seen, f *olderFile, settled *int64) error {
	group := f.group
	f.group = nil
	before := s.bad()
	for _, g := range group {
		if err := a.statistics(ctx, s, met, g.stats, *settled); err != nil {
			return err
		}
	}
	if err := s.drain(); err != nil || s.bad() != before {
		return err
	}
	for _, g := range group {
		u := s.begin(position{snapshot: *settled})
		if g.why != "" {
			s.skip(u, g.why, g.uri, 1)
		} else {
			*settled++
			if err := s.add(g.obj.Bucket, a.item(g.obj, g.uri, 0, u)); err != nil {
				return err
			}
		}
		s.end(u, position{snapshot: *settled})
	}
	return s.drain()
}

func (a *walk) statistics(ctx context.Context, s *sink, met *seen, stats []string, settled int64) error {
	if len(stats) == 0 {
		return nil
	}
	u := s.begin(position{snapshot: settled})
	for _, uri := range stats {
		if !met.add(uri) {
			continue
		}
		if err := a.remove(ctx, s, u, uri, 0); err != nil {
			return err
		}
	}
	s.end(u, position{snapshot: settled})
	return nil
}

// olderLocations returns the locations that older metadata of the same table claims.
func (a *walk) olderLocations(ctx context.Context) ([]blob.Location, error) {
	met := map[object]struct{}{a.object(a.job.MetadataLocation): {}}
	logs := [][]string{a.root.Log}
	var out []blob.Location
	known := map[blob.Location]struct{}{}
	for len(logs) > 0 {
		log := logs[len(logs)-1]
		logs = logs[:len(logs)-1]
		for _, uri := range log {
			obj, err := a.scope.space.Resolve(uri)
			if err != nil || dotted(obj) {
				continue
			}
			if _, ok := met[objectOf(obj)]; ok {
				continue
			}
			if len(met) >= a.cfg.MaxOlder {
				return out, nil
			}
			met[objectOf(obj)] = struct{}{}
			m, err := a.readMetadata(ctx, obj)
			var aborted *abortError
			switch {
			case err == nil:
			case errors.As(err, &aborted):
				return nil, aborted.err
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case blob.IsNotExist(err), tablefile.IsUnreadable(err):
				continue // the level METADATA says what is to be said about it
			default:
				return nil, fmt.Errorf("purge: locations of older metadata: %w", err)
			}
			followed, trusted := a.related(m, obj)
			if followed {
				logs = append(logs, m.Log)
			}
			if !trusted {
				continue
			}
			for _, l := range m.Locations() {
				if _, ok := known[l]; !ok {
					known[l] = struct{}{}
					out = append(out, l)
				}
			}
		}
	}
	return out, nil
}

// leftovers counts what still lies under the table's own locations. It deletes nothing.
func (a *walk) leftovers(ctx context.Context) error {
	p := a.progress
	p.Leftovers, p.LeftoversMore, p.LeftoversUnknown = 0, false, false
	delete(p.Samples, "leftover")
	for _, own := range a.scope.homes() {
		obj, err := a.scope.space.Resolve(string(own))
		if err != nil {
			continue // a whole storage root: inReach has seen it
		}
		err = obj.Bucket.List(pace.With(ctx, a.turn), obj.Key+"/", func(info blob.Info) error {
			l := own + blob.Location(info.Key[min(len(obj.Key), len(info.Key)):])
			if _, foreign := a.scope.place(l); foreign {
				return nil
			}
			if p.Leftovers >= int64(a.cfg.MaxLeftovers) {
				p.LeftoversMore = true
				return blob.ErrStop
			}
			p.Leftovers++
			p.sample("leftover", string(l), "not reachable from the table")
			return nil
		})
		a.turn.Pause()
		switch {
		case err == nil, errors.Is(err, blob.ErrStop), blob.IsNotExist(err):
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case blob.ClassOf(err).Outage():
			return fmt.Errorf("purge: list leftovers: %w", err)
		default: // nothing of the table is left, a listing that is denied must not fail it
			p.LeftoversUnknown = true
		}
	}
	return nil
}
