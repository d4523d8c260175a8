package purge

import (
	"strings"

	"github.com/lethe-project/lethe/internal/blob"
)

// places is a set of locations that is asked what holds a file. It costs a few look-ups
// a question, however many there are.
type places map[blob.Location]struct{}

func (p places) has(l blob.Location) bool {
	_, ok := p[l]
	return ok
}

// holds reports whether one of them contains l, or is it.
func (p places) holds(l blob.Location) bool {
	_, ok := p.nearest(l)
	return ok
}

// nearest returns the innermost that contains l, or is it.
func (p places) nearest(l blob.Location) (blob.Location, bool) {
	if len(p) == 0 {
		return "", false
	}
	for ; ; l = parent(l) {
		if p.has(l) {
			return l, true
		}
		if l == "" {
			return "", false
		}
	}
}

// highest returns the outermost that contains l, or is it.
func (p places) highest(l blob.Location) (top blob.Location, ok bool) {
	for ; l != ""; l = parent(l) {
		if p.has(l) {
			top, ok = l, true
		}
	}
	return top, ok
}

// parent returns what is above l, at last "".
func parent(l blob.Location) blob.Location {
	return l[:max(strings.LastIndexByte(string(l), '/'), 0)]
}
