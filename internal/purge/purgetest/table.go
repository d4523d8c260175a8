// Package purgetest makes tables by code, straight with Avro and JSON and without any
// Iceberg library, into any storage: every shape that a purge must know, the full set
// of files that it must remove, and those that it must leave.
//
// A Builder plays the commits of a table one after the other, so that its metadata
// files, logs and manifests are related the way those of a real writer are.
package purgetest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/lethe-project/lethe/internal/blob"
)

// Options of a table; zero values mean a plain one of format version 2.
type Options struct {
	Version    int    // 2
	UUID       string // a random one
	Codec      string // of Avro files: null, deflate (the default), snappy, zstandard
	Gzip       bool   // of metadata files
	Inline     bool   // format v1: manifests stand in the metadata, there are no lists
	LogMax     int    // 100, entries of the metadata log; older ones are found through logs of logs
	Trim       bool   // delete metadata files that fall out of the log
	Properties map[string]string
}

// Builder plays the commits of one table. The first error stays; Table returns it.
type Builder struct {
	Location string // may be changed between commits, like by a writer that moves a table

	space    *blob.Space
	ctx      context.Context //nolint:containedctx // a fixture's writes belong to one test
	opts     Options
	rnd      *rand.Rand
	err      error
	serial   int
	snaps    []snapshot
	stats    map[int64]string // snapshot → its statistics file
	partStat map[int64]string
	refs     map[string]any
	log      []string
	root     string
	commits  int
	files    map[string]struct{} // everything written and not removed again
	leaked   map[string]struct{} // of these, what nothing names any more
	namedBy  map[string][]string // statistics file → metadata files
}

type snapshot struct {
	id        int64
	list      string
	manifests []manifest
}

type manifest struct {
	path    string
	length  int64
	content int32
	entries []entry
	key     []byte
}

// New begins a table at a location of the space.
func New(ctx context.Context, space *blob.Space, location string, opts Options) *Builder {
	if opts.Version == 0 {
		opts.Version = 2
	}
	if opts.LogMax == 0 {
		opts.LogMax = 100
	}
	if opts.Codec == "" {
		opts.Codec = "deflate"
	}
	rnd := rand.New(rand.NewPCG(1, uint64(len(location))))
	if opts.UUID == "" {
		opts.UUID = fmt.Sprintf("%08x-0000-4000-8000-%012x", rand.Uint32(), rand.Uint64()&0xffffffffffff)
	}
	b := &Builder{
		Location: location, space: space, ctx: ctx, opts: opts, rnd: rnd,
		stats: map[int64]string{}, partStat: map[int64]string{}, refs: map[string]any{},
		files: map[string]struct{}{}, leaked: map[string]struct{}{}, namedBy: map[string][]string{},
	}
	b.commit()
	return b
}

// Table is a finished fixture.
type Table struct {
	UUID      string
	Location  string
	Metadata  string   // the root metadata file
	Reachable []string // what a purge must remove, sorted
	Leaked    []string // what it can not know, sorted
	Manifests []string // of the current metadata, in walk order
	Lists     []string
}

// Table returns the table as it stands.
func (b *Builder) Table() (Table, error) {
	t := Table{UUID: b.opts.UUID, Location: b.Location, Metadata: b.root}
	for f := range b.files {
		if _, leaked := b.leaked[f]; leaked || b.unnamed(f) {
			t.Leaked = append(t.Leaked, f)
		} else {
			t.Reachable = append(t.Reachable, f)
		}
	}
	slices.Sort(t.Reachable)
	slices.Sort(t.Leaked)
	for _, s := range b.snaps {
		if s.list != "" {
			t.Lists = append(t.Lists, s.list)
		}
		for _, m := range s.manifests {
			if !slices.Contains(t.Manifests, m.path) {
				t.Manifests = append(t.Manifests, m.path)
			}
		}
	}
	return t, b.err
}

// unnamed reports whether f is a statistics file whose metadata files were all trimmed.
func (b *Builder) unnamed(f string) bool {
	by, ok := b.namedBy[f]
	return ok && !slices.ContainsFunc(by, func(m string) bool {
		_, there := b.files[m]
		return there
	})
}

// Append commits n data files in a manifest of their own.
func (b *Builder) Append(n int) *Builder { return b.add(dataFile, n, "parquet") }

// PositionDeletes commits n position delete files.
func (b *Builder) PositionDeletes(n int) *Builder { return b.add(positionFile, n, "parquet") }

// EqualityDeletes commits n equality delete files.
func (b *Builder) EqualityDeletes(n int) *Builder { return b.add(equalityFile, n, "parquet") }

// DeletionVectors commits n vectors that share one Puffin file, in two manifests.
func (b *Builder) DeletionVectors(n int) *Builder {
	puffin := b.write(b.name("data", "dv.puffin"), []byte("PFA1"))
	var both [2][]entry
	for i := range n {
		both[i%2] = append(both[i%2], b.entry(added, positionFile, puffin, "puffin"))
	}
	b.snapshot(b.manifest(positionFile, both[0]), b.manifest(positionFile, both[1]))
	return b.commit()
}

// Name commits entries for files that are not made, or made elsewhere.
func (b *Builder) Name(paths ...string) *Builder {
	var entries []entry
	for _, p := range paths {
		entries = append(entries, b.entry(added, dataFile, p, "parquet"))
	}
	b.snapshot(b.manifest(dataFile, entries))
	return b.commit()
}

// Remove commits the removal of the first data file of the last manifest: it stays, as
// a DELETED entry, the way copy-on-write leaves it.
func (b *Builder) Remove() *Builder {
	last := b.current()
	if len(last) == 0 || len(last[len(last)-1].entries) == 0 {
		return b
	}
	m := last[len(last)-1]
	entries := slices.Clone(m.entries)
	for i := range entries {
		entries[i].Status = existing
	}
	entries[0].Status = deleted
	b.snapshotOf(append(slices.Clone(last[:len(last)-1]), b.manifest(m.content, entries)))
	return b.commit()
}

// Rewrite commits all manifests rewritten, one for each content kind.
func (b *Builder) Rewrite() *Builder {
	var data, deletes []entry
	for _, m := range b.current() {
		for _, e := range m.entries {
			if e.Status == deleted {
				continue // as rewrite_manifests does: only older snapshots name it now
			}
			e.Status = existing
			if m.content == dataFile {
				data = append(data, e)
			} else {
				deletes = append(deletes, e)
			}
		}
	}
	var ms []manifest
	if len(data) > 0 {
		ms = append(ms, b.manifest(dataFile, data))
	}
	if len(deletes) > 0 {
		ms = append(ms, b.manifest(positionFile, deletes))
	}
	b.snapshotOf(ms)
	return b.commit()
}

// Statistics commits statistics of both kinds for the current snapshot, in place of
// those it had; the replaced files stay, and only older metadata names them.
func (b *Builder) Statistics() *Builder {
	if len(b.snaps) == 0 {
		return b
	}
	id := b.snaps[len(b.snaps)-1].id
	b.stats[id] = b.write(b.name("metadata", "stats"), []byte("PFA1"))
	b.partStat[id] = b.write(b.name("metadata", "partition-stats.parquet"), []byte("PAR1"))
	return b.commit()
}

// Branch commits a branch or tag at the current snapshot.
func (b *Builder) Branch(name, kind string) *Builder {
	if len(b.snaps) > 0 {
		b.refs[name] = map[string]any{"snapshot-id": b.snaps[len(b.snaps)-1].id, "type": kind}
	}
	return b.commit()
}

// Expire commits that the n oldest snapshots are gone. With clean, what only they named
// is removed as expire_snapshots does; else it is leaked.
func (b *Builder) Expire(n int, clean bool) *Builder {
	n = min(n, max(len(b.snaps)-1, 0))
	gone := b.snaps[:n]
	b.snaps = slices.Clone(b.snaps[n:])
	kept := map[string]struct{}{}
	for _, s := range b.snaps {
		for _, m := range s.manifests {
			kept[m.path] = struct{}{}
			for _, e := range m.entries {
				kept[e.File.Path] = struct{}{}
			}
		}
	}
	drop := func(path string) {
		if _, ok := kept[path]; ok || path == "" {
			return
		}
		if clean {
			b.remove(path)
		} else if _, ok := b.files[path]; ok {
			b.leaked[path] = struct{}{}
		}
	}
	for _, s := range gone {
		drop(s.list)
		// Their statistics stay and are named by older metadata.
		delete(b.stats, s.id)
		delete(b.partStat, s.id)
		for _, m := range s.manifests {
			drop(m.path)
			for _, e := range m.entries {
				drop(e.File.Path)
			}
		}
	}
	return b.commit()
}

// Set commits a property.
func (b *Builder) Set(key, value string) *Builder {
	b.opts.Properties = maps.Clone(b.opts.Properties)
	if b.opts.Properties == nil {
		b.opts.Properties = map[string]string{}
	}
	b.opts.Properties[key] = value
	return b.commit()
}

// Encrypt commits an append whose manifest the list calls encrypted.
func (b *Builder) Encrypt() *Builder {
	m := b.manifest(dataFile, []entry{b.entry(added, dataFile, b.write(b.name("data", "e.parquet"), []byte("PAR1")), "parquet")})
	m.key = []byte{1}
	b.snapshot(m)
	return b.commit()
}

func (b *Builder) add(content int32, n int, format string) *Builder {
	var entries []entry
	for range n {
		path := b.write(b.name("data", "f."+format), []byte("PAR1"))
		entries = append(entries, b.entry(added, content, path, format))
	}
	b.snapshot(b.manifest(content, entries))
	return b.commit()
}

func (b *Builder) entry(status, content int32, path, format string) entry {
	snap, day := int64(len(b.snaps)+1), int32(b.serial%3)
	e := entry{Status: status, Snapshot: &snap, File: file{
		Content: content, Path: path, Format: strings.ToUpper(format), Records: 1, Size: 4,
		Partition: partition{Day: &day}, Sizes: &[]kv{{1, 2}, {3, 4}},
	}}
	return e
}

func (b *Builder) current() []manifest {
	if len(b.snaps) == 0 {
		return nil
	}
	return b.snaps[len(b.snaps)-1].manifests
}

func (b *Builder) snapshot(ms ...manifest) { b.snapshotOf(append(slices.Clone(b.current()), ms...)) }

func (b *Builder) snapshotOf(ms []manifest) {
	b.serial++
	s := snapshot{id: int64(b.serial), manifests: ms}
	if !b.opts.Inline {
		var rows []listEntry
		for _, m := range ms {
			rows = append(rows, m.listEntry())
		}
		s.list = b.write(b.name("metadata", "snap.avro"), encode(b, listSchema(b.opts.Version), rows))
	}
	b.snaps = append(b.snaps, s)
}

func (m *manifest) listEntry() listEntry {
	var counts [3]int32
	for _, e := range m.entries {
		counts[e.Status]++
	}
	snap := int64(1)
	e := listEntry{
		Path: m.path, Length: m.length, Content: min(m.content, 1), Snapshot: &snap,
		Added: &counts[added], Existing: &counts[existing], Deleted: &counts[deleted],
	}
	if m.key != nil {
		e.Key = &m.key
	}
	return e
}

func (b *Builder) manifest(content int32, entries []entry) manifest {
	body := encode(b, manifestSchema(b.opts.Version), entries)
	return manifest{path: b.write(b.name("metadata", "m0.avro"), body), length: int64(len(body)), content: content, entries: entries}
}

// encode writes rows in several blocks, as long files have.
func encode[T any](b *Builder, schema *avro.Schema, rows []T) []byte {
	var out bytes.Buffer
	codec, err := codecOf(b.opts.Codec)
	b.fail(err)
	w, err := ocf.NewWriter(&out, schema, ocf.WithCodec(codec), ocf.WithBlockCount(8))
	if err != nil {
		b.fail(err)
		return nil
	}
	for i := range rows {
		b.fail(w.Encode(&rows[i]))
	}
	b.fail(w.Close())
	return out.Bytes()
}

func codecOf(name string) (ocf.Codec, error) {
	switch name {
	case "deflate":
		return ocf.DeflateCodec(6), nil
	case "snappy":
		return ocf.SnappyCodec(), nil
	case "zstandard":
		return ocf.ZstdCodec(nil, nil)
	case "null":
		return nil, nil
	default:
		return nil, fmt.Errorf("purgetest: codec %q", name)
	}
}

// commit writes the next metadata file, which becomes the root.
func (b *Builder) commit() *Builder {
	if b.root != "" {
		b.log = append(b.log, b.root)
		for len(b.log) > b.opts.LogMax {
			if b.opts.Trim {
				b.remove(b.log[0])
			}
			b.log = b.log[1:]
		}
	}
	doc := map[string]any{
		"format-version": b.opts.Version, "table-uuid": b.opts.UUID, "location": b.Location,
		"last-updated-ms": 1, "properties": b.opts.Properties, "refs": b.refs,
		"schemas": []any{map[string]any{"type": "struct", "schema-id": 0, "fields": []any{}}},
		"x-new":   map[string]any{"deep": []any{1, "two", nil}},
	}
	var snaps, log []any
	for _, s := range b.snaps {
		snap := map[string]any{"snapshot-id": s.id, "timestamp-ms": 1, "summary": map[string]any{"operation": "append"}}
		if s.list != "" {
			snap["manifest-list"] = s.list
		} else {
			var paths []string
			for _, m := range s.manifests {
				paths = append(paths, m.path)
			}
			snap["manifests"] = paths
		}
		snaps = append(snaps, snap)
	}
	for _, l := range b.log {
		log = append(log, map[string]any{"timestamp-ms": 1, "metadata-file": l})
	}
	doc["snapshots"], doc["metadata-log"] = snaps, log
	doc["statistics"], doc["partition-statistics"] = statistics(b.stats), statistics(b.partStat)
	body, err := json.Marshal(doc)
	b.fail(err)
	name := fmt.Sprintf("%05d-%08x.metadata.json", b.commits, b.rnd.Uint32())
	if b.opts.Gzip {
		body = zip(body)
		name = strings.Replace(name, ".metadata", ".gz.metadata", 1)
	}
	b.commits++
	b.root = b.write(b.Location+"/metadata/"+name, body)
	for _, by := range []map[int64]string{b.stats, b.partStat} {
		for _, f := range by {
			b.namedBy[f] = append(b.namedBy[f], b.root)
		}
	}
	return b
}

func statistics(by map[int64]string) []any {
	var out []any
	for id, path := range by {
		out = append(out, map[string]any{"snapshot-id": id, "statistics-path": path, "file-size-in-bytes": 4})
	}
	return out
}

func zip(body []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(body) // a Buffer never fails
	_ = w.Close()
	return out.Bytes()
}

func (b *Builder) name(dir, suffix string) string {
	b.serial++
	base := b.Location
	if p := b.opts.Properties["write.data.path"]; p != "" && dir == "data" {
		return fmt.Sprintf("%s/%05d-%08x-%s", p, b.serial, b.rnd.Uint32(), suffix)
	}
	if dir == "data" {
		dir = fmt.Sprintf("data/day=%d", b.serial%3)
	}
	return fmt.Sprintf("%s/%s/%05d-%08x-%s", base, dir, b.serial, b.rnd.Uint32(), suffix)
}

// write makes a file and returns its URI.
func (b *Builder) write(uri string, body []byte) string {
	b.fail(Write(b.ctx, b.space, uri, body))
	b.files[uri] = struct{}{}
	return uri
}

func (b *Builder) remove(uri string) {
	if _, ok := b.files[uri]; !ok {
		return
	}
	b.fail(Delete(b.ctx, b.space, uri))
	delete(b.files, uri)
	delete(b.leaked, uri)
}

func (b *Builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Write makes a file at a URI of the space.
func Write(ctx context.Context, space *blob.Space, uri string, body []byte) error {
	obj, err := space.Resolve(uri)
	if err != nil {
		return err
	}
	return obj.Bucket.Put(ctx, obj.Key, bytes.NewReader(body))
}

// Read returns a file of the space.
func Read(ctx context.Context, space *blob.Space, uri string) (body []byte, err error) {
	obj, err := space.Resolve(uri)
	if err != nil {
		return nil, err
	}
	r, _, err := obj.Bucket.Open(ctx, obj.Key)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(r)
}

// Delete removes a file of the space.
func Delete(ctx context.Context, space *blob.Space, uri string) error {
	obj, err := space.Resolve(uri)
	if err != nil {
		return err
	}
	if res := obj.Bucket.DeleteMany(ctx, []blob.Key{obj.Key})[0]; res.Outcome == blob.Failed {
		return res.Err
	}
	return nil
}

// Replace puts other bytes in a file's place.
func Replace(ctx context.Context, space *blob.Space, uri string, body []byte) error {
	if err := Delete(ctx, space, uri); err != nil {
		return err
	}
	return Write(ctx, space, uri, body)
}

// Tree returns all files of a space's buckets by URI, with their bytes.
func Tree(ctx context.Context, space *blob.Space) (map[string]string, error) {
	out := map[string]string{}
	for _, m := range space.Mounts() {
		err := m.Bucket.List(ctx, "", func(info blob.Info) error {
			uri := string(m.Root) + "/" + string(info.Key)
			r, _, err := m.Bucket.Open(ctx, info.Key)
			if err != nil {
				return err
			}
			defer func() { _ = r.Close() }()
			body, err := io.ReadAll(r)
			out[uri] = string(body)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
