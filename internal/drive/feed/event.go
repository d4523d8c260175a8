package feed

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// Kind is what happened.
type Kind string

// The kinds of events. A Reset says that everything below its path may have changed, or
// all of the drive when its path is empty: read again.
const (
	Create Kind = "create"
	Write  Kind = "write"
	Attrib Kind = "attrib"
	Rename Kind = "rename"
	Remove Kind = "remove"
	Reset  Kind = "reset"
)

// Event is one change of a tree. Path is where the entry was when it happened; From is
// where a renamed one was before.
type Event struct {
	Seq      int64 // 0 until it is numbered
	Kind     Kind
	Parent   int64 // inode of the directory
	Name     string
	Inode    int64
	Revision int64
	Path     string
	From     string
	Actor    string
	At       int64 // milliseconds since the Unix epoch, by the database's clock
}

const (
	eventValues                 = "(?, 0, ?, ?, ?, ?, ?, ?, ?, ?, {now})"
	insertEvent sqldb.Statement = `INSERT INTO fs_events (fs_id, seq, kind, parent_id, name, inode_id, revision, path, from_path, actor, created_at)
		VALUES ` + eventValues
	selectEvents sqldb.Statement = `SELECT seq, kind, parent_id, name, inode_id, revision, path, from_path, actor, created_at
		FROM fs_events WHERE fs_id = ? AND seq > ? ORDER BY seq LIMIT ?`
	selectBounds sqldb.Statement = "SELECT oldest_seq, next_seq FROM usage_total WHERE fs_id = ?"
)

// Publish records events inside the transaction that makes them true, as many at once as the
// engine takes: one write may make two thousand directories on its way.
func (s *Store) Publish(ctx context.Context, tx *sqldb.Tx, fs int64, events ...Event) error {
	for part := range slices.Chunk(events, tx.Dialect().MaxInsert) {
		var args []any
		for _, e := range part {
			args = append(args, fs, string(e.Kind), e.Parent, e.Name, e.Inode, e.Revision, e.Path, e.From, e.Actor)
		}
		all := insertEvent + sqldb.Statement(strings.Repeat(", "+eventValues, len(part)-1))
		if _, err := tx.Exec(ctx, all, args...); err != nil {
			return err
		}
	}
	return nil
}

// MaxRead is the most events that one Read returns.
const MaxRead = 1000

// Read returns numbered events after a number, oldest first, at most limit of them. A
// negative after means from now on: no events, and the number to go on from. reset says
// that events after that number are gone (or that there was never such a number): the
// reader looks at the whole tree again and goes on from next.
func (s *Store) Read(ctx context.Context, fs, after int64, limit int) (events []Event, next int64, reset bool, err error) {
	if limit <= 0 || limit > MaxRead {
		limit = MaxRead
	}
	if after >= 0 {
		if events, err = s.read(ctx, fs, after, limit); err != nil {
			return nil, 0, false, err
		}
	}
	// The bounds are read after the events: what was pruned in between shows.
	var oldest, following int64
	if err := s.db.QueryRow(ctx, selectBounds, fs).Scan(&oldest, &following); err != nil {
		return nil, 0, false, noDrive("feed.Read", err)
	}
	switch {
	case after < 0:
		return nil, following - 1, false, nil
	case after < oldest-1 || after >= following:
		return nil, following - 1, true, nil
	case len(events) == 0:
		return nil, after, false, nil
	}
	return events, events[len(events)-1].Seq, false, nil
}

func (s *Store) read(ctx context.Context, fs, after int64, limit int) ([]Event, error) {
	rows, err := s.db.Query(ctx, selectEvents, fs, after, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var events []Event
	for rows.Next() {
		var e Event
		if err := rows.Scan(&e.Seq, &e.Kind, &e.Parent, &e.Name, &e.Inode, &e.Revision, &e.Path, &e.From, &e.Actor, &e.At); err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, rows.Err()
}

// Wait returns when events were numbered by this process, when another process may have
// done so (after the feed's interval), or when ctx ends, whose cause it returns then. The
// caller reads, and waits again when there is nothing.
func (s *Store) Wait(ctx context.Context) error {
	s.mu.Lock()
	numbered := s.numbered
	s.mu.Unlock()
	timer := time.NewTimer(s.cfg.Interval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-numbered:
	case <-timer.C:
	}
	return nil
}

// announce lets those go on who wait for events.
func (s *Store) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.numbered)
	s.numbered = make(chan struct{})
}

// ParseKind returns the kind of that name.
func ParseKind(name string) (Kind, error) {
	switch k := Kind(name); k {
	case Create, Write, Attrib, Rename, Remove, Reset:
		return k, nil
	}
	return "", fault.New("feed.ParseKind", fault.Invalid, "InvalidEventKind", "%q is no kind of event", name)
}
