package purge

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lethe-project/lethe/internal/job"
)

// Level is one storey of a table, deleted from the bottom up.
type Level uint8

// The levels. A job's phase is the name of the highest level whose deletes may have begun.
const (
	none      Level = iota // nothing was deleted yet
	Data                   // data and delete files, deletion vectors
	Manifests              // manifest files
	Lists                  // manifest lists
	Older                  // older metadata files with their statistics, then the root's statistics
	Root                   // the metadata file that the catalog named
)

var levelNames = [...]string{"", "DATA", "MANIFESTS", "LISTS", "METADATA", "ROOT"}

// String returns the level's name as it stands in the column phase.
func (l Level) String() string { return levelNames[l] }

// parseLevel returns the level of a phase; an unknown one is an error, because to guess
// low would take what an earlier attempt deleted for damage.
func parseLevel(phase string) (Level, error) {
	for l, name := range levelNames {
		if name == phase {
			return Level(l), nil
		}
	}
	return none, fmt.Errorf("purge: unknown phase %q", phase)
}

// position is a place inside a level: snapshot, manifest in its list, entry in it.
type position struct{ snapshot, manifest, entry int64 }

func (p position) String() string {
	return fmt.Sprintf("%d:%d:%d", p.snapshot, p.manifest, p.entry)
}

func (p position) before(q position) bool {
	if p.snapshot != q.snapshot {
		return p.snapshot < q.snapshot
	}
	if p.manifest != q.manifest {
		return p.manifest < q.manifest
	}
	return p.entry < q.entry
}

func later(p, q position) position {
	if p.before(q) {
		return q
	}
	return p
}

// cursor is what the column cursor_pos holds inside a level: the lowest unsettled
// position, and after a yield also where the pass goes on ("low>next"). Only a yielded
// pass skips what lies between the two, and such a pass never settles its level alone.
type cursor struct{ low, next position }

func (c cursor) String() string {
	if c.low == c.next {
		return c.low.String()
	}
	return c.low.String() + ">" + c.next.String()
}

// parseCursor reads a cursor; anything that is none starts the level anew, for it is
// only a short cut.
func parseCursor(s string) cursor {
	low, next, yielded := strings.Cut(s, ">")
	c := cursor{low: parsePosition(low)}
	c.next = c.low
	if yielded {
		c.next = parsePosition(next)
		if c.next.before(c.low) {
			c.next = c.low
		}
	}
	return c
}

func parsePosition(s string) position {
	var p position
	parts := strings.Split(s, ":")
	for i, into := range []*int64{&p.snapshot, &p.manifest, &p.entry} {
		if i >= len(parts) {
			break
		}
		n, err := strconv.ParseInt(parts[i], 10, 64)
		if err != nil || n < 0 {
			return position{}
		}
		*into = n
	}
	return p
}

// Further reports whether b stands further than a: by level, then by the lowest
// unsettled position.
func Further(a, b job.Point) bool {
	la, errA := parseLevel(a.Phase)
	lb, errB := parseLevel(b.Phase)
	if errA != nil || errB != nil {
		return false
	}
	if la != lb {
		return la < lb
	}
	return parseCursor(a.Cursor).low.before(parseCursor(b.Cursor).low)
}
