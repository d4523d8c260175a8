package drive

import (
	"context"
	"slices"
	"strings"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// maxLinks is how many symbolic links one path may lead through.
const maxLinks = 40

type scopeKey struct{}

// WithScope limits where symbolic links may lead: allowed is asked for every absolute path
// that a followed link led to, before it is looked at, and its error is what the operation
// answers. The paths that a caller named are the caller's own business.
func WithScope(ctx context.Context, allowed func(path string) error) context.Context {
	return context.WithValue(ctx, scopeKey{}, allowed)
}

type targetScopeKey struct{}

// WithTargetScope is WithScope for the second path of an operation on two (Rename, Copy,
// Link): what may be read through a link need not be what may be written through one.
func WithTargetScope(ctx context.Context, allowed func(path string) error) context.Context {
	return context.WithValue(ctx, targetScopeKey{}, allowed)
}

// toTarget is the context in which an operation walks its second path.
func toTarget(ctx context.Context) context.Context {
	if allowed, ok := ctx.Value(targetScopeKey{}).(func(string) error); ok {
		return WithScope(ctx, allowed)
	}
	return ctx
}

func inScope(ctx context.Context, path tree.Path) error {
	if allowed, ok := ctx.Value(scopeKey{}).(func(string) error); ok {
		return allowed(path.String())
	}
	return nil
}

// spot is where a path leads once links were followed.
type spot struct {
	path    tree.Path
	node    tree.Node  // whole, when missing is empty
	dir     tree.Inode // of the node's parent, or the deepest directory that exists
	missing []string
}

func (s spot) found() bool { return len(s.missing) == 0 }

// walk follows a path. Links on the way are followed, one that stands last when follow is
// set. One statement per 16 names and link.
func (d *Drive) walk(ctx context.Context, r sqldb.Reader, op string, fs tree.FS, path tree.Path, follow bool) (spot, error) {
	var done []string // directories that are known to be there, without links
	pending := path.Names()
	for links := 0; ; {
		// What stands before a ".." (of a link's text) is walked before it is left again.
		run, rest := pending, []string(nil)
		if i := slices.Index(pending, ".."); i >= 0 {
			run, rest = pending[:i], pending[i+1:]
			if i == 0 {
				done, pending = done[:max(len(done)-1, 0)], rest
				continue
			}
		}
		at, err := tree.ParsePath("/" + strings.Join(slices.Concat(done, run), "/"))
		if err != nil {
			return spot{}, err
		}
		if links > 0 {
			if err := inScope(ctx, at); err != nil {
				return spot{}, err
			}
		}
		found, err := d.tree.Resolve(ctx, r, fs, at)
		if err != nil {
			return spot{}, err
		}
		up := len(run) != len(pending) // a ".." follows
		last, depth := found.Last(), len(found.Chain)-1
		if !found.Exists() && last.Kind != tree.Directory { // a link or a file on the way
			node, alive, err := d.tree.Get(ctx, r, fs, last.Inode)
			if err != nil {
				return spot{}, err
			}
			if !alive {
				return spot{}, tree.ErrMoved
			}
			last.Kind, last.Target = node.Kind, node.Target
			if last.Kind != tree.Symlink {
				return spot{}, notDirectory(op, at)
			}
		}
		switch {
		case last.Kind == tree.Symlink && (follow || up || !found.Exists()):
			if links++; links > maxLinks {
				return spot{}, fault.New(op, fault.Conflict, CodeSymlinkLoop, "%s leads through more than %d symbolic links", path, maxLinks)
			}
			done = slices.Clone(at.Names()[:depth-1])
			if strings.HasPrefix(last.Target, "/") {
				done = nil
			}
			if up {
				rest = append([]string{".."}, rest...)
			}
			pending = slices.Concat(components(last.Target), found.Missing, rest)
		case up && !found.Exists():
			return spot{}, notFound(op, at)
		case up && last.Kind != tree.Directory:
			return spot{}, notDirectory(op, at)
		case up:
			done, pending = slices.Clone(at.Parent().Names()), rest
		case found.Exists():
			return spot{path: at, node: last, dir: last.Parent}, nil
		default:
			return spot{path: at, dir: last.Inode, missing: found.Missing}, nil
		}
	}
}

// components splits the text of a link. Empty ones and "." are nothing.
func components(target string) []string {
	return slices.DeleteFunc(strings.Split(target, "/"), func(name string) bool { return name == "" || name == "." })
}

// find is walk of something that must be there, for operations that only look or remove.
func (d *Drive) find(ctx context.Context, r sqldb.Reader, op string, fs tree.FS, path tree.Path, follow bool) (spot, error) {
	at, err := d.walk(ctx, r, op, fs, path, follow)
	switch {
	case fault.Is(err, CodeNotDirectory):
		return spot{}, fault.Wrap(op, fault.NotFound, CodeNotDirectory, err, "%s does not exist: a file stands on the way", path)
	case err != nil:
		return spot{}, err
	case !at.found():
		return spot{}, notFound(op, path)
	}
	return at, nil
}
