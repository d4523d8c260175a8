package content

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// ScrubOptions of Scrub.
type ScrubOptions struct {
	OlderThan time.Duration // 24 h: younger objects are left out
	Queue     bool          // give what nobody names to the collector
}

// Scrubbed is what a scrub saw of a drive.
type Scrubbed struct {
	Objects int64 // in the store, below the drive's prefix
	Bytes   int64
	Stray   int64 // of them: named by no row, and old enough
	Queued  int64 // of the strays: given to the collector
	Foreign int64 // not of a name that this product gives: never touched
	Missing int64 // contents whose object the store did not list
	Samples []string
}

const (
	maxStrays     = 20 // samples
	defaultScrub  = 24 * time.Hour
	scrubPageSize = 500
)

// An object's key goes from a task to a part or a content in one transaction, and from there
// back to a task, so rows are read in that order: what none of them named was named by none.
// The sum keeps PostgreSQL from the primary key: by fs_id alone it is all of a drive.
const (
	tasksNamed     sqldb.Statement = "SELECT object_key FROM file_gc_tasks {key} WHERE {on postgres}(fs_id, object_key) IN (SELECT ?::bigint, unnest(?::text[])){else}fs_id = ? AND object_key {in}{end}"
	partsNamed     sqldb.Statement = "SELECT object_key FROM upload_parts {index:upload_parts_object} WHERE fs_id + 0 = ? AND object_key {in}"
	contentsNamed  sqldb.Statement = "SELECT object_key FROM contents {index:contents_object} WHERE fs_id + 0 = ? AND object_key {in}"
	countedObjects sqldb.Statement = "SELECT COUNT(object_key) FROM contents WHERE fs_id = ? AND created_at < ?"

	strayValues                  = "(?, ?, {now}, 0, NULL, NULL, 0, '', {now})"
	insertStrays sqldb.Statement = `INSERT INTO file_gc_tasks (fs_id, object_key, due_at, multipart, claim, claimed_at, attempts, last_error, created_at)
		VALUES ` + strayValues
)

// Scrub lists the store against the rows of a drive and reports what does not fit. An
// object that no row names, older than any write can last, is a leak: it can never be
// named any more, because a commit takes the task that it has not. Contents that are
// written or removed meanwhile may be counted as missing.
func (s *Store) Scrub(ctx context.Context, fs int64, opts ScrubOptions) (seen Scrubbed, err error) {
	if opts.OlderThan <= 0 {
		opts.OlderThan = max(defaultScrub, 2*s.cfg.WriteTimeout)
	}
	began := time.Now()
	var counted int64
	if err := s.db.QueryRow(ctx, countedObjects, fs, began.UnixMilli()).Scan(&counted); err != nil {
		return seen, err
	}
	prefix := blob.Key(fmt.Sprintf("%s/%d/", s.cfg.Prefix, fs))
	var page []blob.Info
	var named int64
	flush := func() error {
		n, err := s.scrubPage(ctx, fs, page, began.Add(-opts.OlderThan), opts.Queue, &seen)
		named += n
		page = page[:0]
		return err
	}
	err = s.bucket.List(ctx, prefix, func(o blob.Info) error {
		seen.Objects++
		seen.Bytes += o.Size
		if !isOurs(prefix, o.Key) {
			seen.Foreign++
			return nil
		}
		if page = append(page, o); len(page) == scrubPageSize {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	seen.Missing = max(0, counted-named)
	return seen, err
}

// isOurs reports whether newKey makes such keys.
func isOurs(prefix, key blob.Key) bool {
	_, name, ok := strings.Cut(strings.TrimPrefix(string(key), string(prefix)), "/")
	_, err := uuid.Parse(name)
	return ok && err == nil
}

// madeAt is the time of an object by the store's clock, or that of its name.
func madeAt(o blob.Info) time.Time {
	if !o.ModTime.IsZero() {
		return o.ModTime
	}
	id, err := uuid.Parse(string(o.Key[strings.LastIndexByte(string(o.Key), '/')+1:]))
	if err != nil {
		return time.Now()
	}
	return time.Unix(id.Time().UnixTime())
}

// scrubPage judges a page of objects and returns how many of them contents name.
func (s *Store) scrubPage(ctx context.Context, fs int64, page []blob.Info, before time.Time, queue bool, seen *Scrubbed) (named int64, err error) {
	if len(page) == 0 {
		return 0, nil
	}
	keys := make(sqldb.Strings, len(page))
	for i, o := range page {
		keys[i] = string(o.Key)
	}
	known := map[string]bool{}
	for _, look := range []sqldb.Statement{tasksNamed, partsNamed, contentsNamed} {
		n, err := s.lookFor(ctx, look, fs, keys, known)
		if err != nil {
			return 0, err
		}
		named = n // that of contents, which come last
		if err := s.cfg.Step(ctx, "scrub: looked"); err != nil {
			return 0, err
		}
	}
	var strays sqldb.Strings
	for _, o := range page {
		if !known[string(o.Key)] && madeAt(o).Before(before) {
			strays = append(strays, string(o.Key))
		}
	}
	if len(strays) == 0 {
		return named, nil
	}
	if _, err := s.lookFor(ctx, tasksNamed, fs, strays, known); err != nil {
		return 0, err
	}
	strays = slices.DeleteFunc(strays, func(key string) bool { return known[key] }) // let go meanwhile
	seen.Stray += int64(len(strays))
	seen.Samples = append(seen.Samples, strays[:min(len(strays), maxStrays-len(seen.Samples))]...)
	if !queue {
		return named, nil
	}
	for part := range slices.Chunk(strays, s.db.Dialect().MaxInsert) {
		n, err := s.queueStrays(ctx, fs, part)
		if err != nil {
			return 0, err
		}
		seen.Queued += n
	}
	return named, nil
}

// queueStrays hands keys to the collector. Another scrub may be at it: what it queued in the
// meantime is left out.
func (s *Store) queueStrays(ctx context.Context, fs int64, keys sqldb.Strings) (n int64, err error) {
	for range 10 {
		if len(keys) == 0 {
			return 0, nil
		}
		var args []any
		for _, key := range keys {
			args = append(args, fs, key)
		}
		n, err = s.db.Exec(ctx, insertStrays+sqldb.Statement(strings.Repeat(", "+strayValues, len(keys)-1)), args...)
		if err == nil || s.db.Dialect().Classify(err) != sqldb.ClassUnique {
			return n, err
		}
		known := map[string]bool{}
		if _, err := s.lookFor(ctx, tasksNamed, fs, keys, known); err != nil {
			return 0, err
		}
		keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return known[key] })
	}
	return 0, err
}

// lookFor adds the keys that a statement finds.
func (s *Store) lookFor(ctx context.Context, look sqldb.Statement, fs int64, keys sqldb.Strings, known map[string]bool) (n int64, err error) {
	rows, err := s.db.Sweeper().Query(ctx, look, fs, keys)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var key sql.NullString
		if err := rows.Scan(&key); err != nil {
			return 0, err
		}
		known[key.String] = true
		n++
	}
	return n, rows.Err()
}
