package tenant

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
)

// maxRetired bounds how many replaced storages are closed once more at the end.
const maxRetired = 64

// entry is one warehouse that was asked for.
type entry struct {
	turn chan struct{} // of the one who looks at the row

	mu      sync.Mutex
	now     *state
	seen    time.Time // when the row was looked at; zero: look before it is used
	changes int       // by this server
}

// state is a warehouse as its row was.
type state struct {
	rec       *record
	warehouse *Warehouse
	close     func() error // may be nil
	absent    bool         // its storage could not be opened
}

// look returns the warehouse as its row is, or was a moment ago.
func (d *Directory) look(ctx context.Context, id WarehouseID) (*state, error) {
	e := d.entry(id)
	now, fresh := e.state(d.cfg.Recheck)
	if fresh == seenJustNow {
		return now, nil
	}
	select {
	case e.turn <- struct{}{}:
	default:
		if fresh == seenBefore {
			return now, nil // somebody else looks; opening may take a while
		}
		select {
		case e.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer func() { <-e.turn }()
	if now, fresh = e.state(d.cfg.Recheck); fresh == seenJustNow {
		return now, nil
	}
	changes, asked := e.begin()
	rec, err := d.read(ctx, d.db, byID, id)
	if gone(err) {
		d.forget(id, now)
		return nil, noSuch("tenant.WarehouseByID", err, strconv.FormatInt(int64(id), 10))
	}
	if err != nil {
		return nil, err
	}
	if now == nil || now.absent || now.rec.version != rec.version {
		before := now
		now, err = d.open(ctx, rec)
		switch {
		case fault.Is(err, CodeStorageTrouble) && fault.KindOf(err) == fault.Busy && ctx.Err() == nil:
			// Tables can be listed and dropped all the same, and the warehouse with them.
			if now, err = d.without(rec, err); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		}
		d.retire(before)
	}
	e.end(now, changes, asked)
	d.mu.Lock()
	dropped := d.entries[id] != e
	d.mu.Unlock()
	if dropped {
		d.retire(now)
	}
	return now, nil
}

// without is a warehouse whose storage cannot be opened, for the reason given.
func (d *Directory) without(rec *record, reason error) (*state, error) {
	places, err := rec.storage.roots()
	if err != nil {
		return nil, err
	}
	mounts := make([]blob.Mount, len(places))
	for i, l := range places {
		mounts[i] = blob.Mount{Root: l, Bucket: blob.Absent(reason)}
	}
	space, err := blob.NewSpace(mounts...)
	if err != nil {
		return nil, err
	}
	d.cfg.Logger.Warn("storage of a warehouse is away", "warehouse", rec.name, "error", reason)
	return &state{rec: rec, absent: true, warehouse: &Warehouse{
		ID: rec.id, Tenant: rec.tenant, TenantName: rec.tenantName, Name: rec.name, RootURI: string(places[0]), Space: space,
		TableDefaults: rec.defaults, TableOverrides: rec.overrides, Closing: rec.closing, credentials: rec.credentials.Int64,
	}}, nil
}

func (d *Directory) entry(id WarehouseID) *entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.entries[id]
	if e == nil {
		e = &entry{turn: make(chan struct{}, 1)}
		d.entries[id] = e
	}
	return e
}

// freshness says what a state is good for.
type freshness int

const (
	unseen      freshness = iota // there is none, or this server has changed it
	seenBefore                   // it will do while somebody else looks
	seenJustNow                  // it will do
)

func (e *entry) state(within time.Duration) (*state, freshness) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.now == nil || e.seen.IsZero():
		return e.now, unseen
	case time.Since(e.seen) < within:
		return e.now, seenJustNow
	default:
		return e.now, seenBefore
	}
}

// begin and end stand around a look at the row, which a change may overtake.
func (e *entry) begin() (changes int, asked time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changes, time.Now()
}

func (e *entry) end(now *state, changes int, asked time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now, e.seen = now, asked
	if e.changes != changes {
		e.seen = time.Time{}
	}
}

// changed makes the next look one at the row.
func (d *Directory) changed(id WarehouseID) {
	e := d.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = time.Time{}
	e.changes++
}

// forget drops a warehouse that is gone.
func (d *Directory) forget(id WarehouseID, last *state) {
	d.mu.Lock()
	delete(d.entries, id)
	for key, of := range d.names {
		if of == id {
			delete(d.names, key)
		}
	}
	d.mu.Unlock()
	d.retire(last)
}

// retire lets go of storage that was replaced. Who still uses it may connect anew, so
// that it is closed once more at the end.
func (d *Directory) retire(last *state) {
	if last == nil || last.close == nil {
		return
	}
	if err := last.close(); err != nil {
		d.cfg.Logger.Warn("storage not closed", "warehouse", last.warehouse.Name, "error", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retired = append(d.retired, last.close)
	if len(d.retired) > maxRetired {
		d.retired = d.retired[1:] // its idle connections have long ended
	}
}
