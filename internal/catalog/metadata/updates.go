package metadata

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// update is one decoded change of a commit. apply must not change the update: it may
// be applied again, and by another goroutine.
type update interface {
	apply(ed *editor) error
}

// mover is an update that may change Table.Locations.
type mover interface{ moves() bool }

// preparer is an update with a part to decode or to check beyond its own fields.
type preparer interface{ prepare() error }

// action makes an empty update and names the fields that it requires.
type action[U any] struct {
	make     func() U
	required []string
}

// actions are the updates of tables in the REST specification.
var actions = map[string]action[update]{
	"assign-uuid":                 {func() update { return new(assignUUID) }, []string{"uuid"}},
	"upgrade-format-version":      {func() update { return new(upgradeFormat) }, []string{"format-version"}},
	"add-schema":                  {func() update { return new(addSchema) }, []string{"schema"}},
	"set-current-schema":          {func() update { return new(setCurrentSchema) }, []string{"schema-id"}},
	"add-spec":                    {func() update { return new(addSpec) }, []string{"spec"}},
	"set-default-spec":            {func() update { return new(setDefaultSpec) }, []string{"spec-id"}},
	"add-sort-order":              {func() update { return new(addSortOrder) }, []string{"sort-order"}},
	"set-default-sort-order":      {func() update { return new(setDefaultSortOrder) }, []string{"sort-order-id"}},
	"add-snapshot":                {func() update { return new(addSnapshot) }, []string{"snapshot"}},
	"set-snapshot-ref":            {func() update { return new(setSnapshotRef) }, []string{"ref-name", "type", "snapshot-id"}},
	"remove-snapshots":            {func() update { return new(removeSnapshots) }, []string{"snapshot-ids"}},
	"remove-snapshot-ref":         {func() update { return new(removeSnapshotRef) }, []string{"ref-name"}},
	"set-location":                {func() update { return new(setLocation) }, []string{"location"}},
	"set-properties":              {func() update { return new(setProperties) }, nil},
	"remove-properties":           {func() update { return new(removeProperties) }, nil},
	"set-statistics":              {func() update { return new(setStatistics) }, []string{"statistics"}},
	"remove-statistics":           {func() update { return new(removeStatistics) }, []string{"snapshot-id"}},
	"set-partition-statistics":    {func() update { return new(setPartitionStats) }, []string{"partition-statistics"}},
	"remove-partition-statistics": {func() update { return new(removePartitionStats) }, []string{"snapshot-id"}},
	"remove-partition-specs":      {func() update { return new(removeSpecs) }, []string{"spec-ids"}},
	"remove-schemas":              {func() update { return new(removeSchemas) }, []string{"schema-ids"}},
	"add-encryption-key":          {func() update { return new(addEncryptionKey) }, []string{"encryption-key"}},
	"remove-encryption-key":       {func() update { return new(removeEncryptionKey) }, []string{"key-id"}},
}

// replay is the decoded updates of a commit in their order.
type replay[U any] struct {
	updates         []U
	actions         []string
	changesLocation bool
}

func decodeUpdates[U any](op, what string, known map[string]action[U], limit int, raws []json.RawMessage) (r replay[U], err error) {
	if n := len(raws); n > limit {
		return r, invalidf(op, "%s: %d updates are more than the limit of %d", what, n, limit)
	}
	for i, raw := range raws {
		name, u, err := decodeUpdate(known, raw)
		if err != nil {
			return r, invalid(op, fmt.Sprintf("%s: update %d", what, i), err)
		}
		r.updates = append(r.updates, u)
		r.actions = append(r.actions, name)
		if m, ok := any(u).(mover); ok && m.moves() {
			r.changesLocation = true
		}
	}
	return r, nil
}

// run applies every update; the error of one names it.
func (r *replay[U]) run(op string, apply func(U) error) error {
	for i, u := range r.updates {
		if err := apply(u); err != nil {
			return refused(op, fmt.Sprintf("update %d (%s)", i, r.actions[i]), err)
		}
	}
	return nil
}

func decodeUpdate[U any](known map[string]action[U], raw json.RawMessage) (name string, u U, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return "", u, err
	}
	if err := json.Unmarshal(fields["action"], &name); err != nil || name == "" {
		return "", u, errors.New("action is required")
	}
	act, ok := known[name]
	if !ok {
		return "", u, fmt.Errorf("unknown action %q", name)
	}
	for _, field := range act.required {
		if isNull(fields[field]) {
			return "", u, fmt.Errorf("%s requires %s", name, field)
		}
	}
	u = act.make()
	if err := json.Unmarshal(raw, u); err != nil {
		return "", u, fmt.Errorf("%s: %w", name, err)
	}
	if p, ok := any(u).(preparer); ok {
		if err := p.prepare(); err != nil {
			return "", u, fmt.Errorf("%s: %w", name, err)
		}
	}
	return name, u, nil
}

func isNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}

type assignUUID struct {
	UUID uuid.UUID `json:"uuid"`
}

func (u *assignUUID) apply(ed *editor) error {
	if ed.exists && ed.uuid != uuid.Nil && ed.uuid != u.UUID {
		return fmt.Errorf("the uuid of an existing table cannot be changed (%s to %s)", ed.uuid, u.UUID)
	}
	return ed.b.SetUUID(u.UUID)
}

type upgradeFormat struct {
	Version int `json:"format-version"`
}

func (u *upgradeFormat) apply(ed *editor) error {
	if err := ed.b.SetFormatVersion(u.Version); err != nil {
		return err
	}
	ed.version = u.Version
	return nil
}

type setLocation struct {
	Location string `json:"location"`
}

func (u *setLocation) moves() bool { return true }

func (u *setLocation) apply(ed *editor) error {
	if u.Location == "" {
		return errors.New("location is empty")
	}
	return ed.b.SetLoc(stripSlashes(u.Location))
}

type setProperties struct {
	Updates map[string]*string `json:"updates"`
	Legacy  map[string]*string `json:"updated"` // the name before the specification settled
	values  map[string]string
}

func (u *setProperties) prepare() (err error) {
	if u.Updates == nil {
		u.Updates = u.Legacy
	}
	if u.Updates == nil {
		return errors.New("updates is required")
	}
	u.values, err = stringMap(u.Updates)
	return err
}

func (u *setProperties) moves() bool {
	return slices.ContainsFunc(pathProperties, func(key string) bool { _, ok := u.values[key]; return ok })
}

func (u *setProperties) apply(ed *editor) error { return ed.b.SetProperties(u.values) }

type removeProperties struct {
	Removals []string `json:"removals"`
	Legacy   []string `json:"removed"`
}

func (u *removeProperties) prepare() error {
	if u.Removals == nil {
		u.Removals = u.Legacy
	}
	if u.Removals == nil {
		return errors.New("removals is required")
	}
	return nil
}

func (u *removeProperties) moves() bool {
	return slices.ContainsFunc(pathProperties, func(key string) bool { return slices.Contains(u.Removals, key) })
}

func (u *removeProperties) apply(ed *editor) error { return ed.b.RemoveProperties(u.Removals) }

type addEncryptionKey struct {
	Key table.EncryptionKey `json:"encryption-key"`
}

func (u *addEncryptionKey) apply(ed *editor) error {
	if err := ed.b.AddEncryptionKey(u.Key); err != nil {
		return err
	}
	ed.keys[u.Key.KeyID] = true
	return nil
}

type removeEncryptionKey struct {
	ID string `json:"key-id"`
}

func (u *removeEncryptionKey) apply(ed *editor) error {
	if !ed.keys[u.ID] {
		return nil
	}
	delete(ed.keys, u.ID)
	return ed.b.RemoveEncryptionKey(u.ID)
}
