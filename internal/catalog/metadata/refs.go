package metadata

import (
	"bytes"
	"encoding/json"
)

// RefsOnlyJSON returns the document with only those snapshots that a branch or tag (or
// the current snapshot) names: the answer to snapshots=refs. All else, the snapshot log
// included, stays as it is stored. The caller must not change it.
func (t *Table) RefsOnlyJSON() []byte { return t.refsOnly() }

func (t *Table) buildRefsOnly() []byte {
	keep := make(map[int64]bool)
	for _, ref := range t.meta.Refs() {
		keep[ref.SnapshotID] = true
	}
	if id, ok := t.CurrentSnapshotID(); ok {
		keep[id] = true
	}
	start, end, ok := topLevelValue(t.doc, "snapshots")
	if !ok {
		return t.doc
	}
	var all []json.RawMessage
	if json.Unmarshal(t.doc[start:end], &all) != nil {
		return t.doc
	}
	var kept [][]byte
	for _, raw := range all {
		var s struct {
			ID int64 `json:"snapshot-id"`
		}
		if json.Unmarshal(raw, &s) != nil {
			return t.doc
		}
		if keep[s.ID] {
			kept = append(kept, raw)
		}
	}
	if len(kept) == len(all) {
		return t.doc
	}
	list := append(append([]byte{'['}, bytes.Join(kept, []byte{','})...), ']')
	return bytes.Join([][]byte{t.doc[:start], list, t.doc[end:]}, nil)
}

// topLevelValue finds the bytes of a value of the top-level object.
func topLevelValue(doc []byte, name string) (start, end int, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	if _, err := dec.Token(); err != nil {
		return 0, 0, false
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return 0, 0, false
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return 0, 0, false
		}
		if key == name {
			end = int(dec.InputOffset())
			return end - len(value), end, true
		}
	}
	return 0, 0, false
}
