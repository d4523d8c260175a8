package purge

import (
	"context"
	"errors"
	"io"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/purge/tablefile"
)

// visit is called for a manifest at its position and ends the units that it begins.
type visit func(at position, m tablefile.ManifestFile) error

// eachManifest meets every distinct manifest of all snapshots, in a fixed order: files
// of metadata and lists never change, so that a position means the same in every
// attempt. What lies before the place where the pass goes on is only remembered. A list
// that can not be read becomes a bad unit, and the walk goes on behind it.
func (a *walk) eachManifest(ctx context.Context, s *sink, fn visit) error {
	manifests, lists := newSeen(seenManifests), newSeen(seenManifests)
	from := position{a.from.next.snapshot, a.from.next.manifest, 0}
	for i, snap := range a.root.Snapshots {
		at := position{snapshot: int64(i)}
		each := func(m tablefile.ManifestFile) error {
			here := at
			at.manifest++
			if !manifests.add(m.Path) || here.before(from) {
				return nil
			}
			return fn(here, m)
		}
		if snap.ManifestList != "" && lists.add(snap.ManifestList) {
			over := at.snapshot < from.snapshot
			if err := a.list(ctx, s, snap, &at, over, each); err != nil {
				return err
			}
		}
		for _, path := range snap.Manifests {
			if err := each(tablefile.ManifestFile{Path: path, Files: -1}); err != nil {
				return err
			}
		}
	}
	return nil
}

// list reads one manifest list and keeps its trouble at the position it had come to.
// A list that is passed over was judged before; it is read for its names alone.
func (a *walk) list(ctx context.Context, s *sink, snap tablefile.Snapshot, at *position, over bool, each func(tablefile.ManifestFile) error) error {
	obj, err := a.scope.space.Resolve(snap.ManifestList)
	if err != nil || dotted(obj) {
		// This warehouse can neither read nor delete it: skipped, counted at its own level.
		return nil //nolint:nilerr // every error means: not in this space
	}
	if snap.KeyID != "" {
		if !over {
			s.trouble(*at, *at, func(u *unit) { s.damaged(u, snap.ManifestList, "encrypted") })
		}
		return nil
	}
	err = a.read(ctx, obj, func(r io.Reader) error {
		return tablefile.ReadList(r, func(m tablefile.ManifestFile) error {
			a.turn.Row()
			return abort(each(m))
		})
	})
	if over && !errors.As(err, new(*abortError)) {
		return nil
	}
	return a.unread(ctx, s, snap.ManifestList, err, func(mark func(u *unit)) { s.trouble(*at, *at, mark) })
}

// unread decides what an error of reading a list or manifest means. mark is called when
// the position stays unsettled.
func (a *walk) unread(ctx context.Context, s *sink, uri string, err error, mark func(func(u *unit))) error {
	var aborted *abortError
	switch {
	case err == nil:
	case errors.As(err, &aborted):
		return aborted.err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case blob.IsNotExist(err) && a.job.AcceptMissing:
		s.accepted()
	case blob.IsNotExist(err):
		_, why, err := a.scope.judge(ctx, uri)
		if err != nil {
			return err
		}
		if why == "" { // else whoever has it may remove it: skipped, counted at its own level
			mark(func(u *unit) { s.damaged(u, uri, "missing") })
		}
	case tablefile.IsUnreadable(err):
		mark(func(u *unit) { s.damaged(u, uri, "unreadable") })
	case blob.ClassOf(err).Outage():
		return err
	default:
		mark(func(u *unit) { s.failed(u, uri, err) })
	}
	return nil
}

// abortError marks an error of the walk itself inside a decoder's callback.
type abortError struct{ err error }

func (e *abortError) Error() string { return e.err.Error() }

func abort(err error) error {
	if err == nil {
		return nil
	}
	return &abortError{err}
}

// data deletes what the manifests name. A manifest's entries are cut into units of a
// batch each, so that a huge one can be left and taken up again in its middle.
func (a *walk) data(ctx context.Context, s *sink) error {
	files := newSeen(seenFiles)
	gc := a.root.GCEnabled()
	return a.eachManifest(ctx, s, func(at position, m tablefile.ManifestFile) error {
		next := position{at.snapshot, at.manifest + 1, 0}
		if !gc {
			u := s.begin(at)
			s.skip(u, GCDisabled, "", max(m.Files, 0))
			s.end(u, next)
			return a.tick(ctx, s)
		}
		if m.Encrypted {
			s.trouble(at, next, func(u *unit) { s.damaged(u, m.Path, "encrypted") })
			return nil
		}
		obj, err := a.scope.space.Resolve(m.Path)
		if err != nil || dotted(obj) {
			return nil //nolint:nilerr // not in this space: skipped, counted at its own level
		}
		u := s.begin(later(at, a.from.next))
		err = a.read(ctx, obj, func(r io.Reader) error {
			return tablefile.ReadManifest(r, m, func(e tablefile.Entry) error {
				a.turn.Row()
				if at.before(a.from.next) { // settled before the pass was left
					at.entry++
					return nil
				}
				if at.entry > u.at.entry && (at.entry-u.at.entry)%int64(a.cfg.BatchSize) == 0 {
					s.end(u, at)
					err := a.tick(ctx, s)
					u = s.begin(at)
					if err != nil {
						return abort(err)
					}
				}
				at.entry++
				if !files.add(e.Path) {
					return nil
				}
				return abort(a.remove(ctx, s, u, e.Path, e.Size))
			})
		})
		err = a.unread(ctx, s, m.Path, err, func(mark func(*unit)) { mark(u) })
		if err != nil {
			return err // u stays open: it is not settled
		}
		s.end(u, next)
		return a.tick(ctx, s)
	})
}

// manifests deletes the manifests that the lists name.
func (a *walk) manifests(ctx context.Context, s *sink) error {
	return a.eachManifest(ctx, s, func(at position, m tablefile.ManifestFile) error {
		next := position{at.snapshot, at.manifest + 1, 0}
		u := s.begin(at)
		if err := a.remove(ctx, s, u, m.Path, m.Length); err != nil {
			return err
		}
		s.end(u, next)
		return a.tick(ctx, s)
	})
}

// lists deletes the manifest lists of all snapshots.
func (a *walk) lists(ctx context.Context, s *sink) error {
	met := newSeen(seenManifests)
	for i, snap := range a.root.Snapshots {
		at, next := position{snapshot: int64(i)}, position{snapshot: int64(i) + 1}
		uri := snap.ManifestList
		if uri == "" || !met.add(uri) || at.before(a.from.next) {
			continue
		}
		u := s.begin(at)
		if err := a.remove(ctx, s, u, uri, 0); err != nil {
			return err
		}
		s.end(u, next)
		if err := a.tick(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// rootFile deletes the metadata file that the catalog named, the last way to the table.
func (a *walk) rootFile(ctx context.Context, s *sink) error {
	u := s.begin(position{})
	obj, why, err := a.scope.judgeRoot(ctx, a.job.MetadataLocation)
	switch {
	case err != nil:
		return err
	case why != "":
		s.skip(u, why, a.job.MetadataLocation, 1)
	default:
		if err := s.add(obj.Bucket, a.item(obj, a.job.MetadataLocation, 0, u)); err != nil {
			return err
		}
	}
	s.end(u, position{snapshot: 1})
	return nil
}

// remove sends one file to its deletion, or counts by which rule it is skipped. What a
// higher level holds is left to that.
func (a *walk) remove(ctx context.Context, s *sink, u *unit, uri string, size int64) error {
	obj, why, err := a.scope.judge(ctx, uri)
	switch {
	case err != nil:
		return err
	case a.held[objectOf(obj)] > s.level:
		return nil
	case why != "":
		s.skip(u, why, uri, 1)
		return nil
	}
	return s.add(obj.Bucket, a.item(obj, uri, size, u))
}

// object is what one delete removes, however a URI spells it: by its cleaned path in a
// directory, byte for byte in an object store, where a key with "//" or "/./" is another.
type object struct {
	bucket blob.Bucket
	key    blob.Key
}

func objectOf(obj blob.Object) object { return object{obj.Bucket, obj.Key} }

// object returns what a URI names; one outside the space stands for itself.
func (a *walk) object(uri string) object {
	obj, err := a.scope.space.Resolve(uri)
	if err != nil {
		return object{key: blob.Key(uri)}
	}
	return objectOf(obj)
}

func (a *walk) item(obj blob.Object, uri string, size int64, u *unit) item {
	it := item{key: obj.Key, uri: uri, size: size, unit: u}
	if _, ok := obj.Bucket.(blob.DirPruner); ok {
		it.top = a.topKey(obj)
	}
	return it
}

// topKey returns the key of the own location that holds obj, or "".
func (a *walk) topKey(obj blob.Object) blob.Key {
	top, ok := a.scope.top(obj.Location)
	root := len(obj.Location) - len(obj.Key) // directories' keys are the cleaned location's end
	if !ok || len(top) <= root {
		return ""
	}
	return blob.Key(top[root:])
}
