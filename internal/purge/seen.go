package purge

// seen is a bounded exact set of paths: it remembers at least the last limit bytes of
// what was added, known paths included. What it forgot is taken for new, which costs a
// second delete of a file that is gone; what it never saw is never taken for seen, which
// would leak a file.
type seen struct {
	limit      int // bytes a generation holds
	young, old map[string]struct{}
	size       int
}

const seenOverhead = 64 // bytes of a map entry beside the path's own

func newSeen(limit int) *seen {
	return &seen{limit: limit, young: map[string]struct{}{}, old: map[string]struct{}{}}
}

// add reports whether path is new, and remembers it.
func (s *seen) add(path string) bool {
	if _, ok := s.young[path]; ok {
		return false
	}
	_, known := s.old[path]
	if s.size += len(path) + seenOverhead; s.size > s.limit {
		s.old, s.young, s.size = s.young, s.old, len(path)+seenOverhead
		clear(s.young) // it has its room already
	}
	s.young[path] = struct{}{}
	return !known
}
