package purge

import (
	"encoding/json"
	"slices"
	"strings"
)

// Reason says by which rule a file was skipped.
type Reason string

// The reasons.
const (
	GCDisabled   Reason = "gc_disabled"   // the table said gc.enabled=false
	Outside      Reason = "outside"       // under none of the table's locations
	Foreign      Reason = "foreign"       // under another entry's or unsettled job's location, or beside one, where nothing may be taken
	OutsideRoots Reason = "outside_roots" // not in the warehouse's storage, or hostile
	Invalid      Reason = "invalid"       // no such key can exist in the store
)

const maxSamples = 10 // of each kind

// Progress is the result of a purge as it stands, kept in the job's row.
type Progress struct {
	Files     int64            `json:"files"`             // deleted
	Bytes     int64            `json:"bytes"`             // of these, as the manifests record them
	Missing   int64            `json:"missing"`           // were not there, an earlier attempt's deletes included
	Skipped   map[Reason]int64 `json:"skipped,omitempty"` // by a rule
	Failed    int64            `json:"failed"`            // not deleted in the last pass
	Damaged   int64            `json:"damaged,omitempty"` // manifests, lists, metadata: missing, unreadable, encrypted
	Accepted  int64            `json:"acceptedMissing,omitempty"`
	Leftovers int64            `json:"leftovers"`
	// LeftoversMore says that counting stopped at its limit.
	LeftoversMore bool `json:"leftoversMore,omitempty"`
	// LeftoversUnknown says that the location could not be listed.
	LeftoversUnknown bool `json:"leftoversUnknown,omitempty"`
	// Directories counts emptied ones that the storage would not remove.
	Directories int64               `json:"directories,omitempty"`
	Levels      map[string]*Tally   `json:"levels,omitempty"`
	Samples     map[string][]Sample `json:"samples,omitempty"` // by kind: failed, damaged, skipped, leftover, directory
	// Notes say what a delete in this storage does not remove: versions, what is locked.
	Notes []string `json:"notes,omitempty"`
}

// Tally counts one level.
type Tally struct {
	Files   int64            `json:"files,omitempty"`
	Bytes   int64            `json:"bytes,omitempty"`
	Missing int64            `json:"missing,omitempty"`
	Skipped map[Reason]int64 `json:"skipped,omitempty"`
}

// Sample is one file of a kind. Why is a fixed word, never a store's text, and what
// follows a '?' is cut off: neither may carry a secret into the row.
type Sample struct {
	Location string `json:"location"`
	Why      string `json:"why"`
}

// parseProgress reads a row's progress; what can not be read is started anew.
func parseProgress(raw json.RawMessage) *Progress {
	p := &Progress{}
	if len(raw) > 0 && json.Unmarshal(raw, p) != nil {
		p = &Progress{}
	}
	if p.Levels == nil {
		p.Levels = map[string]*Tally{}
	}
	if p.Samples == nil {
		p.Samples = map[string][]Sample{}
	}
	return p
}

func (p *Progress) level(l Level) *Tally {
	t := p.Levels[l.String()]
	if t == nil {
		t = &Tally{}
		p.Levels[l.String()] = t
	}
	return t
}

// restart forgets what a new pass over the level will find again. Deleted files are
// never found again.
func (p *Progress) restart(l Level, fromStart bool) {
	p.Failed, p.Damaged = 0, 0
	delete(p.Samples, "failed")
	delete(p.Samples, "damaged")
	if fromStart {
		if l == Data {
			p.Accepted, p.Directories = 0, 0
			delete(p.Samples, "directory")
		}
		t := p.level(l)
		t.Missing, t.Skipped = 0, nil
	}
}

// sum brings the totals in step with the levels.
func (p *Progress) sum() {
	p.Files, p.Bytes, p.Missing, p.Skipped = 0, 0, 0, nil
	for _, t := range p.Levels {
		p.Files += t.Files
		p.Bytes += t.Bytes
		p.Missing += t.Missing
		p.Skipped = addReasons(p.Skipped, t.Skipped)
	}
}

func (p *Progress) sample(kind, location, why string) {
	if len(p.Samples[kind]) >= maxSamples {
		return
	}
	location, _, _ = strings.Cut(location, "?")
	if len(location) > 512 {
		location = location[:512]
	}
	s := Sample{Location: strings.ToValidUTF8(location, "\uFFFD"), Why: why}
	if !slices.Contains(p.Samples[kind], s) {
		p.Samples[kind] = append(p.Samples[kind], s)
	}
}

func (t *Tally) add(o Tally) {
	t.Files += o.Files
	t.Bytes += o.Bytes
	t.Missing += o.Missing
	t.Skipped = addReasons(t.Skipped, o.Skipped)
}

func addReasons(into, from map[Reason]int64) map[Reason]int64 {
	for r, n := range from {
		if into == nil {
			into = map[Reason]int64{}
		}
		into[r] += n
	}
	return into
}
