package drive_test

import (
	"slices"
	"strings"
)

// model is a drive as users understand it: directories that name files, with POSIX's
// rules. It knows nothing of rows.
type model struct {
	root    *node
	uploads []*upload
}

type node struct {
	kids   map[string]*node // nil: no directory
	target string           // of a symbolic link, not empty
	text   string
}

type upload struct {
	base *node
	rest []string
	text string
}

func newModel() *model { return &model{root: &node{kids: map[string]*node{}}} }

func (n *node) isDir() bool  { return n.kids != nil }
func (n *node) isLink() bool { return n.target != "" }

// place is where a path leads.
type place struct {
	node    *node   // nil when something is missing
	name    string  // of the entry
	dirs    []*node // root first; the last holds the node, or is the deepest that exists
	missing []string
}

func (p place) dir() *node { return p.dirs[len(p.dirs)-1] }

func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
}

// walk follows a path; the second answer is the code of what hinders.
func (m *model) walk(path string, follow bool) (place, string) {
	return m.walkFrom([]*node{m.root}, split(path), follow)
}

func (m *model) walkFrom(dirs []*node, pending []string, follow bool) (place, string) {
	links := 0
	for len(pending) > 0 {
		name, rest := pending[0], pending[1:]
		if name == ".." {
			dirs, pending = dirs[:max(1, len(dirs)-1)], rest
			continue
		}
		dir := dirs[len(dirs)-1]
		kid := dir.kids[name]
		switch {
		case kid == nil && slices.Contains(rest, ".."):
			return place{}, "NotFound"
		case kid == nil:
			return place{name: pending[len(pending)-1], dirs: dirs, missing: pending}, ""
		case kid.isLink() && (follow || len(rest) > 0):
			if links++; links > 40 {
				return place{}, "SymlinkLoop"
			}
			if strings.HasPrefix(kid.target, "/") {
				dirs = dirs[:1]
			}
			pending = slices.Concat(split(kid.target), rest)
		case kid.isDir():
			if len(rest) == 0 {
				return place{node: kid, name: name, dirs: dirs}, ""
			}
			dirs, pending = append(slices.Clone(dirs), kid), rest
		case len(rest) > 0:
			return place{}, "NotDirectory"
		default:
			return place{node: kid, name: name, dirs: dirs}, ""
		}
	}
	// What a link or ".." led to is a directory that is entered already.
	return place{node: dirs[len(dirs)-1], dirs: dirs[:max(1, len(dirs)-1)]}, ""
}

// make hangs n where something is missing, with directories on the way.
func (p place) make(n *node) {
	dir := p.dir()
	for i, name := range p.missing {
		next := n
		if i < len(p.missing)-1 {
			next = &node{kids: map[string]*node{}}
		}
		dir.kids[name] = next
		dir = next
	}
}

func (m *model) find(path string, follow bool) (place, string) {
	p, code := m.walk(path, follow)
	if code == "" && p.node == nil {
		code = "NotFound"
	}
	return p, code
}

func (m *model) put(path, text string) string {
	p, code := m.walk(path, true)
	return m.putAt(p, code, text)
}

func (m *model) putAt(p place, code, text string) string {
	switch {
	case code != "":
		return code
	case p.node == nil:
		p.make(&node{text: text})
	case p.node.isDir():
		return "IsDirectory"
	default:
		p.node.text = text
	}
	return "ok"
}

func (m *model) add(path, text string) string {
	p, code := m.find(path, true)
	switch {
	case code != "":
		return code
	case p.node.isDir():
		return "IsDirectory"
	}
	p.node.text += text
	return "ok"
}

func (m *model) read(path string) string {
	p, code := m.find(path, true)
	switch {
	case code != "":
		return code
	case p.node.isDir():
		return "IsDirectory"
	}
	return p.node.text
}

func (m *model) list(path string) string {
	p, code := m.find(path, true)
	switch {
	case code != "":
		return code
	case !p.node.isDir():
		return "NotDirectory"
	}
	return strings.Join(p.node.names(), " ")
}

func (n *node) names() []string {
	var names []string
	for name := range n.kids {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (m *model) mkdir(path string, parents bool) string {
	p, code := m.walk(path, true)
	switch {
	case code != "":
		return code
	case p.node != nil && parents && p.node.isDir():
		return "ok"
	case p.node != nil:
		return "AlreadyExists"
	case len(p.missing) > 1 && !parents:
		return "NotFound"
	}
	p.make(&node{kids: map[string]*node{}})
	return "ok"
}

func (m *model) symlink(path, target string) string {
	p, code := m.walk(path, false)
	switch {
	case code != "":
		return code
	case p.node != nil:
		return "AlreadyExists"
	}
	p.make(&node{target: target})
	return "ok"
}

func (m *model) link(from, to string) string {
	src, code := m.find(from, false)
	if code != "" {
		return code
	}
	if src.node.isDir() {
		return "IsDirectory"
	}
	dst, code := m.walk(to, false)
	switch {
	case code != "":
		return code
	case dst.node != nil:
		return "AlreadyExists"
	case len(dst.missing) > 1:
		return "NotFound"
	}
	dst.make(src.node)
	return "ok"
}

func (m *model) copy(from, to string) string {
	src, code := m.find(from, false)
	switch {
	case code != "":
		return code
	case src.node.isDir():
		return "CopyDirectory"
	case src.node.isLink():
		return m.symlink(to, src.node.target)
	}
	return m.put(to, src.node.text)
}

func (m *model) rename(from, to string) string {
	if len(split(from)) == 0 || len(split(to)) == 0 {
		return "InvalidPath"
	}
	src, code := m.find(from, false)
	if code != "" {
		return code
	}
	dst, code := m.walk(to, false)
	if code != "" {
		return code
	}
	switch {
	case slices.Contains(dst.dirs, src.node): // only a directory is among them
		return "IntoItself"
	case len(dst.missing) > 1:
		return "NotFound"
	case dst.node == src.node:
		return "ok"
	case dst.node == nil:
	case src.node.isDir() && !dst.node.isDir():
		return "NotDirectory"
	case !src.node.isDir() && dst.node.isDir():
		return "IsDirectory"
	case dst.node.isDir() && len(dst.node.kids) > 0:
		return "DirectoryNotEmpty"
	}
	delete(src.dir().kids, src.name)
	dst.dir().kids[dst.name] = src.node
	return "ok"
}

func (m *model) remove(path string, all bool) string {
	if len(split(path)) == 0 {
		return "InvalidPath"
	}
	p, code := m.find(path, false)
	switch {
	case code != "":
		return code
	case p.node.isDir() && len(p.node.kids) > 0 && !all:
		return "DirectoryNotEmpty"
	}
	delete(p.dir().kids, p.name)
	return "ok"
}

// begin begins an upload to where a path leads now.
func (m *model) begin(path, text string) string {
	p, code := m.walk(path, true)
	switch {
	case code != "":
		return code
	case p.node == nil:
		m.uploads = append(m.uploads, &upload{p.dir(), p.missing, text})
		return "ok"
	case p.node.isDir():
		return "IsDirectory"
	}
	m.uploads = append(m.uploads, &upload{p.dir(), []string{p.name}, text})
	return "ok"
}

// complete ends an upload: its directory must hang under the root.
func (m *model) complete(u *upload) string {
	dirs := m.way([]*node{m.root}, u.base)
	if dirs == nil {
		return "gone"
	}
	p, code := m.walkFrom(dirs, u.rest, true)
	return m.putAt(p, code, u.text)
}

// way is the directories from the root to a directory.
func (m *model) way(dirs []*node, to *node) []*node {
	at := dirs[len(dirs)-1]
	if at == to {
		return dirs
	}
	for _, kid := range at.kids {
		if kid.isDir() {
			if found := m.way(append(slices.Clone(dirs), kid), to); found != nil {
				return found
			}
		}
	}
	return nil
}
