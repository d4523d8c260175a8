package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
)

// Siblings are what lives beside the trees that go: each writer has files of its own in the
// trees' parents and in directories next to them, and knows their bytes at any time.

const (
	siblingWriters = 10
	ownFiles       = 30 // above, a writer deletes more than it makes
)

// sibling is one file; several names may share it.
type sibling struct {
	body   string
	frozen bool // a name of it may lie in a tree: it is not written again
}

// writer is one client. It makes one request at a time, and none anew before the one
// before has a clear answer, so that nobody else changes what it knows.
type writer struct {
	w      *world
	number int
	rnd    *rand.Rand
	trees  []*tree
	serial int

	dirs  []string // its own, beside the trees
	files map[string]*sibling
	maybe map[string]string // path → bytes: may have been taken out of a tree, or not
}

func newWriter(w *world, number int, seed uint64, trees []*tree) *writer {
	wr := &writer{
		w: w, number: number, rnd: rand.New(rand.NewPCG(seed, uint64(number)+1)), trees: trees,
		files: map[string]*sibling{}, maybe: map[string]string{},
	}
	for _, p := range parents {
		wr.dirs = append(wr.dirs, fmt.Sprintf("%s/beside-%d", p, number))
	}
	return wr
}

// run writes until stop is closed.
func (wr *writer) run(ctx context.Context, stop <-chan struct{}) error {
	for _, dir := range wr.dirs {
		if err := wr.mkdir(ctx, dir); err != nil {
			return err
		}
	}
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		if err := wr.step(ctx); err != nil {
			return fmt.Errorf("writer %d: %w", wr.number, err)
		}
	}
}

func (wr *writer) step(ctx context.Context) error {
	paths := wr.names()
	if len(paths) < 3 {
		return wr.create(ctx)
	}
	path := paths[wr.rnd.IntN(len(paths))]
	if len(paths) > ownFiles && wr.rnd.IntN(2) == 0 {
		return wr.remove(ctx, path)
	}
	switch wr.rnd.IntN(16) {
	case 0, 1, 2, 3:
		return wr.create(ctx)
	case 4, 5:
		return wr.overwrite(ctx, path)
	case 6, 7:
		return wr.move(ctx, path)
	case 8, 9:
		return wr.duplicate(ctx, path)
	case 10:
		return wr.link(ctx, path)
	case 11:
		return wr.remove(ctx, path)
	case 12:
		return wr.moveDirectory(ctx)
	case 13:
		return wr.intrude(ctx, path)
	default:
		return wr.rescue(ctx)
	}
}

// names are its files, sorted: the same draws are to mean the same.
func (wr *writer) names() (paths []string) {
	for p := range wr.files {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}

// fresh is a path that nobody has used, in one of its directories or beside the trees.
func (wr *writer) fresh(what string) string {
	wr.serial++
	dir := wr.dirs[wr.rnd.IntN(len(wr.dirs))]
	if wr.rnd.IntN(2) == 0 {
		dir = parents[wr.rnd.IntN(len(parents))]
	}
	return fmt.Sprintf("%s/%s-%d-%d", dir, what, wr.number, wr.serial)
}

// send makes a request until its answer is clear, and reports whether it was carried out.
// gone is the status that says that an earlier try did it, if there was one.
func (wr *writer) send(ctx context.Context, kind exchangeKind, method, target, body string, gone int) (done bool, err error) {
	x, doubt, err := wr.w.persist(ctx, wr.rnd.IntN(len(wr.w.nodes)), kind, method, target, body)
	switch {
	case err != nil:
		return false, err
	case x.status/100 == 2, doubt && x.status == gone:
		return true, nil
	}
	return false, fmt.Errorf("refused: %s", x)
}

func (wr *writer) mkdir(ctx context.Context, dir string) error {
	_, err := wr.send(ctx, siblingWrite, http.MethodPost, fsTarget(dir, "op=mkdir"), `{"parents":true}`, http.StatusConflict)
	return err
}

func (wr *writer) create(ctx context.Context) error {
	return wr.put(ctx, wr.fresh("f"), &sibling{})
}

func (wr *writer) overwrite(ctx context.Context, path string) error {
	if s := wr.files[path]; !s.frozen {
		return wr.put(ctx, path, s)
	}
	return wr.create(ctx)
}

func (wr *writer) put(ctx context.Context, path string, s *sibling) error {
	wr.serial++
	object, kind := wr.rnd.IntN(4) == 0, siblingWrite
	if object {
		kind = siblingObject
	}
	body := bytesOf(fmt.Sprintf("%d of %d at %s", wr.serial, wr.number, path), object)
	if _, err := wr.send(ctx, kind, http.MethodPut, fsTarget(path, ""), body, 0); err != nil {
		return err
	}
	s.body, wr.files[path] = body, s
	return nil
}

func (wr *writer) move(ctx context.Context, path string) error {
	to := wr.fresh("moved")
	if _, err := wr.send(ctx, siblingWrite, http.MethodPost, fsTarget(path, "op=rename"), toBody(to), http.StatusNotFound); err != nil {
		return err
	}
	wr.files[to] = wr.files[path]
	delete(wr.files, path)
	return nil
}

func (wr *writer) duplicate(ctx context.Context, path string) error {
	to := wr.fresh("copy")
	if _, err := wr.send(ctx, siblingWrite, http.MethodPost, fsTarget(path, "op=copy"), toBody(to), 0); err != nil {
		return err
	}
	wr.files[to] = &sibling{body: wr.files[path].body}
	return nil
}

func (wr *writer) link(ctx context.Context, path string) error {
	to := wr.fresh("link")
	if _, err := wr.send(ctx, siblingWrite, http.MethodPost, fsTarget(path, "op=link"), toBody(to), http.StatusConflict); err != nil {
		return err
	}
	wr.files[to] = wr.files[path]
	return nil
}

func (wr *writer) remove(ctx context.Context, path string) error {
	if _, err := wr.send(ctx, siblingWrite, http.MethodDelete, fsTarget(path, ""), "", http.StatusNotFound); err != nil {
		return err
	}
	delete(wr.files, path)
	return nil
}

// moveDirectory moves one of its directories with what is in it below another parent.
func (wr *writer) moveDirectory(ctx context.Context) error {
	wr.serial++
	i := wr.rnd.IntN(len(wr.dirs))
	from, to := wr.dirs[i], fmt.Sprintf("%s/beside-%d-%d", parents[wr.rnd.IntN(len(parents))], wr.number, wr.serial)
	if _, err := wr.send(ctx, siblingWrite, http.MethodPost, fsTarget(from, "op=rename"), toBody(to), http.StatusNotFound); err != nil {
		return err
	}
	wr.dirs[i] = to
	rename := func(path string) string {
		if rest, ok := strings.CutPrefix(path, from+"/"); ok {
			return to + "/" + rest
		}
		return path
	}
	for _, path := range wr.names() {
		if now := rename(path); now != path {
			wr.files[now] = wr.files[path]
			delete(wr.files, path)
		}
	}
	for path, body := range wr.maybe {
		if now := rename(path); now != path {
			wr.maybe[now] = body
			delete(wr.maybe, path)
		}
	}
	return nil
}

// intrude gives a file a second name in a tree, if that is there. Whatever becomes of that
// name, the file stays.
func (wr *writer) intrude(ctx context.Context, path string) error {
	wr.serial++
	t := wr.trees[wr.rnd.IntN(len(wr.trees))]
	dir := t.path
	if len(t.files) > 0 && wr.rnd.IntN(2) == 0 {
		f := wr.pick(t)
		dir = f[:strings.LastIndexByte(f, '/')]
	}
	to := fmt.Sprintf("%s/intruder-%d-%d", dir, wr.number, wr.serial)
	wr.files[path].frozen = true
	if t.match { // in what takes the tree's place it would stay
		wr.maybe[to] = wr.files[path].body
	}
	x, _, err := wr.w.persist(ctx, wr.rnd.IntN(len(wr.w.nodes)), siblingWrite, http.MethodPost, fsTarget(path, "op=link"), toBody(to))
	if err == nil && x.status != http.StatusCreated && x.status != http.StatusNotFound && x.status != http.StatusConflict {
		err = fmt.Errorf("refused: %s", x)
	}
	return err
}

func (wr *writer) pick(t *tree) string {
	files := make([]string, 0, len(t.files))
	for f := range t.files {
		files = append(files, f)
	}
	slices.Sort(files)
	return files[wr.rnd.IntN(len(files))]
}

// rescue takes a file out of a tree, by a move, a copy or a second name. If it came first
// the file lives on.
func (wr *writer) rescue(ctx context.Context) error {
	t := wr.trees[wr.rnd.IntN(len(wr.trees))]
	if len(t.files) == 0 {
		return wr.create(ctx)
	}
	from, to := wr.pick(t), wr.fresh("rescued")
	op := []string{"rename", "copy", "link"}[wr.rnd.IntN(3)]
	x, doubt, err := wr.w.persist(ctx, wr.rnd.IntN(len(wr.w.nodes)), siblingWrite, http.MethodPost, fsTarget(from, "op="+op), toBody(to))
	switch {
	case err != nil:
		return err
	case x.status/100 == 2:
		wr.files[to] = &sibling{body: t.files[from], frozen: true}
	case x.status != http.StatusNotFound && x.status != http.StatusConflict:
		return fmt.Errorf("refused: %s", x)
	case doubt:
		wr.maybe[to] = t.files[from]
	}
	return nil
}

// leftovers says what is wrong with what a drive shows, given what stays, what each writer
// knows to be there, and what nobody can know.
func leftovers(visible, stays map[string]string, writers []*writer) (problems []string) {
	want, maybe := map[string]string{}, map[string]string{}
	maps.Copy(want, stays)
	for _, wr := range writers {
		for path, s := range wr.files {
			want[path] = s.body
		}
		maps.Copy(maybe, wr.maybe)
		for _, dir := range wr.dirs {
			want[dir+"/"] = ""
		}
	}
	for path := range want {
		for at := strings.TrimSuffix(path, "/"); strings.LastIndexByte(at, '/') > 0; {
			at = at[:strings.LastIndexByte(at, '/')]
			want[at+"/"] = ""
		}
	}
	for path, body := range visible {
		expected, ok := want[path]
		if !ok {
			expected, ok = maybe[path]
		}
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf("%s is there, with %q", path, body))
		case body != expected:
			problems = append(problems, fmt.Sprintf("%s has %q, want %q", path, body, expected))
		}
	}
	for path := range want {
		if _, ok := visible[path]; !ok {
			problems = append(problems, path+" is gone")
		}
	}
	slices.Sort(problems)
	return problems
}
