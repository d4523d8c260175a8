package tree

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// hops is how many names one statement follows.
const hops = 16

// Resolved is what a path led to.
type Resolved struct {
	// Chain is what exists, root first. Inner nodes have Inode, Parent, Name and Kind only,
	// and Kind is Directory or 0 for anything else. The last one is whole if Missing is empty.
	Chain []Node
	// Missing are the names, of the end of the path, that do not exist. The first of them
	// does not exist either because the last of Chain is no directory.
	Missing []string
}

// Last returns the deepest node that exists: of the path itself, when Exists.
func (r Resolved) Last() Node { return r.Chain[len(r.Chain)-1] }

// Exists tells whether the whole path is there.
func (r Resolved) Exists() bool { return len(r.Missing) == 0 }

// downStatements follow 1 to 16 names from an inode. Every join is one look by primary
// key; PostgreSQL, which knows that a name is common but not that it is so in different
// directories, would read all entries of a common name if it were free to.
var downStatements = func() (out [hops + 1]sqldb.Statement) {
	for n := 1; n <= hops; n++ {
		out[n] = down(n)
	}
	return out
}()

func down(n int) sqldb.Statement {
	var what, lateral, joins strings.Builder
	parent := "r.inode_id"
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&what, "f%d.inode_id, f%d.is_directory, ", i, i)
		fmt.Fprintf(&lateral, ` LEFT JOIN LATERAL (SELECT inode_id, is_directory FROM file_nodes f
			WHERE f.fs_id = r.fs_id AND f.parent_id = %s AND f.name = ? LIMIT 1) f%d ON true`, parent, i)
		fmt.Fprintf(&joins, " LEFT JOIN file_nodes f%d ON f%d.fs_id = r.fs_id AND f%d.parent_id = %s AND f%d.name = ?", i, i, i, parent, i)
		parent = fmt.Sprintf("f%d.inode_id", i)
	}
	return sqldb.Statement("SELECT " + what.String() + columns + " FROM inodes r{on postgres}" +
		lateral.String() + " LEFT JOIN LATERAL (SELECT * FROM inodes n WHERE n.fs_id = r.fs_id AND n.inode_id = " + parent + " LIMIT 1) n ON true{else}" +
		joins.String() + " LEFT JOIN inodes n ON n.fs_id = r.fs_id AND n.inode_id = " + parent + "{end} WHERE r.fs_id = ? AND r.inode_id = ?")
}

// Resolve follows a path as far as it goes: one statement for 16 names. A drive that does
// not exist is fault.NotFound with CodeNoSuchDrive.
func (t *Tree) Resolve(ctx context.Context, r sqldb.Reader, fs FS, path Path) (Resolved, error) {
	names := path.Names()
	if len(names) == 0 {
		root, found, err := t.Get(ctx, r, fs, Root)
		if err == nil && !found {
			err = noSuchDrive()
		}
		return Resolved{Chain: []Node{root}}, err
	}
	out := Resolved{Chain: make([]Node, 1, len(names)+1), Missing: names}
	out.Chain[0] = Node{Inode: Root, Kind: Directory}
	for len(out.Missing) > 0 {
		n := min(hops, len(out.Missing))
		found, err := t.follow(ctx, r, fs, &out, n)
		if err != nil || found < n {
			return out, err
		}
	}
	return out, nil
}

// follow takes the next n missing names and returns how many of them are there.
func (t *Tree) follow(ctx context.Context, r sqldb.Reader, fs FS, out *Resolved, n int) (int, error) {
	var found [2 * hops]sql.NullInt64
	var last row
	dest, args := make([]any, 0, 2*n+11), make([]any, 0, n+2)
	for i := range n {
		dest = append(dest, &found[2*i], &found[2*i+1])
		args = append(args, out.Missing[i])
	}
	args = append(args, int64(fs), int64(out.Last().Inode))
	err := r.QueryRow(ctx, downStatements[n], args...).Scan(append(dest, last.dest()...)...)
	if errors.Is(err, sql.ErrNoRows) {
		if out.Last().Inode == Root {
			return 0, noSuchDrive()
		}
		return 0, nil // the directory went between two statements of a long path
	}
	if err != nil {
		return 0, err
	}
	for i := range n {
		if !found[2*i].Valid {
			return i, nil
		}
		node := Node{Parent: out.Last().Inode, Name: out.Missing[0], Inode: Inode(found[2*i].Int64)}
		if found[2*i+1].Int64 == 1 {
			node.Kind = Directory
		}
		out.Chain, out.Missing = append(out.Chain, node), out.Missing[1:]
	}
	if len(out.Missing) > 0 {
		return n, nil
	}
	if !last.inode.Valid { // a dentry without its inode: reconcile removes it
		at := len(out.Chain) - 1
		out.Missing, out.Chain = []string{out.Chain[at].Name}, out.Chain[:at]
		return n - 1, nil
	}
	whole := last.node()
	whole.Parent, whole.Name = out.Last().Parent, out.Last().Name
	out.Chain[len(out.Chain)-1] = whole
	return n, nil
}
