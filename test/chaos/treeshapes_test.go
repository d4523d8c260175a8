package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// parents hold the trees, and much that stays beside them.
var parents = []string{"/p0", "/p1", "/p2", "/p3"}

// tree is a directory that will be deleted.
type tree struct {
	path   string
	inode  int64
	nodes  int // made in it; writers add a few
	match  bool
	async  bool
	answer string // the job that an answer named, if any did

	files  map[string]string // path → bytes; never changed
	empty  []string          // directories
	links  [][2]string       // file, second name
	copies [][2]string
}

// small says that one transaction may delete it, without a job.
func (t *tree) small() bool { return t.nodes <= sweepBatch }

func (t *tree) file(format string, args ...any) string {
	name := t.path + "/" + fmt.Sprintf(format, args...)
	t.files[name] = bytesOf(name, len(t.files)%4 == 0)
	return name
}

// bytesOf are bytes that no other name has; those of an object do not fit into a row.
func bytesOf(name string, object bool) string {
	if object {
		return strings.Repeat(name+"\n", 2*inlineBytes/len(name)+2)
	}
	return name[max(0, len(name)-inlineBytes):]
}

// treeShapes are what trees look like; all but the first are larger than a batch.
var treeShapes = []struct {
	name string
	grow func(t *tree)
}{
	{"small", func(t *tree) {
		for i := range 5 {
			t.file("d%d/f%d", i%2, i)
		}
	}},
	{"flat", func(t *tree) {
		for i := range 150 {
			t.file("f%03d", i)
		}
	}},
	{"deep", func(t *tree) {
		at := ""
		for i := range 60 {
			at += fmt.Sprintf("d%d/", i)
			if i%2 == 1 {
				t.file("%sf", at)
			}
		}
	}},
	{"bushy", func(t *tree) {
		for i := range 64 { // the leaves of a binary tree
			t.file("%d/%d/%d/%d/%d/%d/f", i&1, i>>1&1, i>>2&1, i>>3&1, i>>4&1, i>>5&1)
		}
	}},
	{"wide", func(t *tree) {
		for i := range 120 {
			t.file("d%02d/f%d", i/10, i%10)
		}
	}},
	{"linked", func(t *tree) {
		for i := range 40 {
			f := t.file("d%d/f%02d", i%5, i)
			switch i % 4 {
			case 0: // in the tree, in one directory and in another
				t.links = append(t.links, [2]string{f, f + "-link"}, [2]string{f, fmt.Sprintf("%s/d%d/of-%02d", t.path, (i+1)%5, i)})
			case 1: // out of it
				t.links = append(t.links, [2]string{f, fmt.Sprintf("%s-kept-link-%02d", t.path, i)})
			case 2:
				t.copies = append(t.copies, [2]string{f, f + "-copy"})
			default:
				t.copies = append(t.copies, [2]string{f, fmt.Sprintf("%s-kept-copy-%02d", t.path, i)})
			}
		}
	}},
	{"empty directories", func(t *tree) {
		for i := range 70 {
			t.empty = append(t.empty, fmt.Sprintf("%s/e%d/d%02d", t.path, i%7, i))
		}
	}},
}

func newTree(number int) *tree {
	t := &tree{
		path: fmt.Sprintf("%s/tree-%02d", parents[number%len(parents)], number), files: map[string]string{},
		match: number%3 == 0, async: number%2 == 0,
	}
	treeShapes[number%len(treeShapes)].grow(t)
	inside := map[string]bool{}
	for _, path := range slices.Concat(slices.Collect(maps.Keys(t.files)), t.empty, t.others()) {
		for ; strings.HasPrefix(path+"/", t.path+"/"); path = path[:strings.LastIndexByte(path, '/')] {
			inside[path] = true
		}
	}
	t.nodes = len(inside)
	return t
}

// others are the names that links and copies make.
func (t *tree) others() (names []string) {
	for _, pair := range slices.Concat(t.links, t.copies) {
		names = append(names, pair[1])
	}
	return names
}

// kept are the files outside that share bytes with those inside.
func (t *tree) kept() map[string]string {
	all := map[string]string{}
	for _, pair := range slices.Concat(t.links, t.copies) {
		if !strings.HasPrefix(pair[1], t.path+"/") {
			all[pair[1]] = t.files[pair[0]]
		}
	}
	return all
}

// Every tree but the small ones needs a job, and many transactions.
func TestTreesAreMixed(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for i := range deletesOfARound {
		made := newTree(i)
		if small := treeShapes[i%len(treeShapes)].name == "small"; small != made.small() || !small && made.nodes < 6*sweepBatch {
			t.Errorf("%s has %d nodes", made.path, made.nodes)
		}
		seen[fmt.Sprintf("async %t, If-Match %t", made.async, made.match)]++
		if made.small() {
			seen["small"]++
		}
	}
	if len(seen) != 5 {
		t.Errorf("%v, want each way to ask, and small trees", seen)
	}
}
