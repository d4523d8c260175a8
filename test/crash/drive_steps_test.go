package crash

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/client"
)

const (
	inlineSize = 50 // bytes, below and above what quickDrive keeps in rows
	objectSize = 5000
)

const recursive = "?recursive=true"

// killedBefore is one operation that is killed at steps before its commit: nothing of it
// may be seen. Afterwards it is made again and changes the files as it says.
type killedBefore struct {
	name    string
	steps   []string // "drive.Put.locked", "content.write.known"
	method  string
	path    string
	body    any
	changes map[string]string // of the visible files; "" is gone
}

// TestDriveKilledBeforeACommit kills the server at the named steps of operations that are
// one transaction.
func TestDriveKilledBeforeACommit(t *testing.T) {
	t.Parallel()
	inline, object := bytesOf("new inline", inlineSize), bytesOf("new object", objectSize)
	oldInline, oldObject := bytesOf("old inline", inlineSize), bytesOf("old object", objectSize)
	before := map[string]string{
		"/a": "dir", "/a/inline": sha(oldInline), "/a/object": sha(oldObject), "/b": "dir", "/b/other": sha(oldObject),
		"/dir": "dir", "/dir/sub": "dir", "/dir/sub/file": sha(oldObject), "/dir/file": sha(oldInline),
	}
	put := func(name, path string, body []byte, steps ...string) killedBefore {
		return killedBefore{name, steps, http.MethodPut, path, body, map[string]string{path: sha(body)}}
	}
	post := func(name, op, path, to string, changes map[string]string, steps ...string) killedBefore {
		return killedBefore{name, steps, http.MethodPost, path + "?op=" + op, map[string]string{"to": to}, changes}
	}
	// Every one begins with what those before it have made.
	groups := map[string][]killedBefore{
		"writes": {
			put("inline, new", "/a/new1", inline, "drive.Put.resolved", "drive.Put.inserted", "drive.Put.published"),
			put("object, new", "/a/new2", object, "content.write.known", "content.write.stored", "drive.Put.locked", "drive.Put.named", "drive.Put.counted"),
			put("inline, replaced", "/a/inline", inline, "drive.Put.updated", "drive.Put.published"),
			put("object, replaced", "/a/object", object, "content.write.stored", "drive.Put.file", "drive.Put.named", "drive.Put.published"),
		},
		"names": {
			post("rename to another directory", "rename", "/a/object", "/b/moved",
				map[string]string{"/a/object": "", "/b/moved": sha(oldObject)}, "drive.Rename.locked", "drive.Rename.moved", "drive.Rename.published"),
			post("rename onto a file", "rename", "/a/inline", "/b/other",
				map[string]string{"/a/inline": "", "/b/other": sha(oldInline)}, "drive.Rename.cleared", "drive.Rename.unlinked", "drive.Rename.published"),
			post("copy", "copy", "/b/moved", "/a/copy", map[string]string{"/a/copy": sha(oldObject)}, "drive.Copy.named", "drive.Copy.published"),
			post("link", "link", "/b/moved", "/a/link", map[string]string{"/a/link": sha(oldObject)}, "drive.Link.linked"),
			post("rename of a directory", "rename", "/dir", "/b/dir", map[string]string{
				"/dir": "", "/dir/sub": "", "/dir/sub/file": "", "/dir/file": "",
				"/b/dir": "dir", "/b/dir/sub": "dir", "/b/dir/sub/file": sha(oldObject), "/b/dir/file": sha(oldInline),
			}, "drive.Rename.move-locked", "drive.Rename.moved", "drive.Rename.published"),
			{"remove", []string{"drive.Remove.locked", "drive.Remove.removed", "drive.Remove.published"}, http.MethodDelete, "/a/copy", nil, map[string]string{"/a/copy": ""}},
		},
		"trees": {
			{
				"fast path",
				[]string{"removal.fast.resolved", "removal.fast.level", "removal.fast.locked", "removal.fast.marked"},
				http.MethodDelete, "/dir" + recursive, nil,
				map[string]string{"/dir": "", "/dir/sub": "", "/dir/sub/file": "", "/dir/file": ""},
			},
			{
				"detach",
				[]string{"removal.detach.resolved", "removal.detach.moved"},
				http.MethodDelete, "/big" + recursive, nil,
				map[string]string{"/big": "", "/big/0": "", "/big/1": "", "/big/2": "", "/big/3": "", "/big/4": "", "/big/5": ""},
			},
		},
	}
	for group, all := range groups {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			onEachDrive(t, func(d *driveWorld) {
				d.start()
				files := maps.Clone(before)
				for _, path := range []string{"/a/inline", "/dir/file"} {
					d.put(path, oldInline)
				}
				for _, path := range []string{"/a/object", "/b/other", "/dir/sub/file"} {
					d.put(path, oldObject)
				}
				if group == "trees" {
					files["/big"] = "dir"
					for n := range 6 {
						path := fmt.Sprintf("/big/%d", n)
						d.put(path, oldObject)
						files[path] = sha(oldObject)
					}
				}
				for _, c := range all {
					d.killedBefore(c, files)
				}
				d.wantSettled()
			})
		})
	}
}

func (d *driveWorld) killedBefore(c killedBefore, files map[string]string) {
	d.t.Helper()
	for _, step := range c.steps {
		d.diesAt(step, c.method, "/v1/fs"+c.path, c.body)
		d.wantFiles(files)
		if d.t.Failed() {
			d.t.Fatalf("so after a kill at %s of: %s", step, c.name)
		}
	}
	if a, err := d.send(c.method, "/v1/fs"+c.path, c.body); err != nil || a.status > 299 {
		d.t.Fatalf("%s: %v, %d %s", c.name, err, a.status, a.body)
	}
	for path, state := range c.changes {
		if files[path] = state; state == "" {
			delete(files, path)
		}
	}
	d.wantFiles(files)
}

// TestDriveKilledInAnUpload kills the server at the steps of an upload in two parts, which
// goes on each time with what was acknowledged.
func TestDriveKilledInAnUpload(t *testing.T) {
	t.Parallel()
	onEachDrive(t, func(d *driveWorld) {
		d.start()
		first, second := bytesOf("first", 3000), bytesOf("second", 2000)
		whole := slices.Concat(first, second)
		begin := map[string]any{"path": "/up/file", "size": len(whole)}
		for _, step := range []string{"drive.InitiateUpload.locked", "drive.InitiateUpload.counted"} {
			d.diesAt(step, http.MethodPost, "/v1/uploads", begin)
		}
		var upload client.UploadInfo
		if err := json.Unmarshal(d.call(http.StatusCreated, http.MethodPost, "/v1/uploads", begin).body, &upload); err != nil {
			d.t.Fatal(err)
		}
		at := "/v1/uploads/" + upload.ID
		parts := func(want ...int) {
			d.t.Helper()
			info, err := d.drive.UploadInfo(d.t.Context(), upload.ID)
			got := []int{}
			for _, p := range info.Parts {
				got = append(got, p.Number)
			}
			if err != nil || info.State != "OPEN" || !slices.Equal(got, want) {
				d.t.Fatalf("the upload: %+v, %v; want it open with the parts %d", info, err, want)
			}
		}
		d.call(http.StatusOK, http.MethodPut, at+"/parts/2", second)
		for _, step := range []string{"content.part.known", "content.part.stored"} {
			d.diesAt(step, http.MethodPut, at+"/parts/1", first)
			parts(2)
		}
		d.call(http.StatusOK, http.MethodPut, at+"/parts/1", first)
		d.diesAt("content.part.stored", http.MethodPut, at+"/parts/2", first) // replaced by something else: not acknowledged
		for _, step := range []string{
			"content.write.known", "content.write.stored", "drive.CompleteUpload.locked", "drive.CompleteUpload.inserted", "drive.CompleteUpload.named", "drive.CompleteUpload.published",
		} {
			d.diesAt(step, http.MethodPost, at+"/complete", map[string]any{})
			parts(1, 2)
			d.wantFiles(map[string]string{})
		}
		d.call(http.StatusCreated, http.MethodPost, at+"/complete", map[string]any{})
		d.wantFiles(map[string]string{"/up": "dir", "/up/file": sha(whole)})
		d.wantSettled()
	})
}

// TestDriveKilledInTheCollector kills the server while objects are collected, one of which
// was not there any more when it was asked for again.
func TestDriveKilledInTheCollector(t *testing.T) {
	t.Parallel()
	onEachDrive(t, func(d *driveWorld) {
		d.start()
		kept := bytesOf("kept", objectSize)
		d.put("/kept", kept)
		for _, step := range []string{"content.collect.claimed", "content.collect.looked", "content.collect.deleted"} {
			d.put("/gone", bytesOf(step, objectSize))
			d.call(http.StatusCreated, http.MethodPost, "/v1/fs/gone?op=copy", map[string]string{"to": "/gone2"})
			d.call(http.StatusOK, http.MethodDelete, "/v1/fs/gone", nil)
			d.armed(step)
			d.call(http.StatusOK, http.MethodDelete, "/v1/fs/gone2", nil)
			d.killed()
			d.start()
			d.wantFiles(map[string]string{"/kept": sha(kept)})
		}
		d.wantSettled()
	})
}

// grow makes a tree of 4 directories and 16 files, of which every other one is an object
// and some share one, below a directory that stays.
func (d *driveWorld) grow(root string) {
	d.t.Helper()
	for n, dir := range []string{"", "/a", "/a/b", "/c"} {
		for i := range 4 {
			size := inlineSize
			if i%2 == 0 {
				size = objectSize
			}
			path := fmt.Sprintf("%s%s/%d", root, dir, i)
			if n > 0 && i == 2 {
				if _, err := d.drive.Copy(d.t.Context(), root+"/0", path, client.ChangeOptions{}); err != nil {
					d.t.Fatal(err)
				}
				continue
			}
			d.put(path, bytesOf(path, size))
		}
	}
}

// detached deletes a tree by a job and returns the job's name.
func (d *driveWorld) detached(path string) string {
	d.t.Helper()
	var removed client.Removed
	a := d.call(http.StatusAccepted, http.MethodDelete, "/v1/fs"+path+recursive, nil, "Prefer", "respond-async")
	if err := json.Unmarshal(a.body, &removed); err != nil || !strings.HasPrefix(removed.Job, "delete-") {
		d.t.Fatalf("%v: %s", err, a.body)
	}
	return removed.Job
}

// TestDriveKilledInASweep kills the server at every named step of a sweep, a tree each.
func TestDriveKilledInASweep(t *testing.T) {
	t.Parallel()
	steps := []string{"begin", "gathered", "locked", "read", "deleted", "closeread", "closelocked", "childless", "closed", "rootlocked", "rootchildless"}
	onEachDrive(t, func(d *driveWorld) {
		d.start()
		kept := bytesOf("kept", objectSize)
		d.put("/kept", kept)
		for _, step := range steps {
			d.grow("/tree")
			// A second name outside: the file itself stays.
			if _, err := d.drive.Link(d.t.Context(), "/tree/a/0", "/"+step); err != nil {
				d.t.Fatal(err)
			}
			d.armed("removal.sweep." + step)
			job := d.detached("/tree")
			d.killed()
			d.start()
			d.wantFiles(map[string]string{"/kept": sha(kept), "/" + step: sha(bytesOf("/tree/a/0", objectSize))})
			if j := d.ends(job, client.Succeeded); j.Counts().Files != 16 || j.Counts().Directories != 4 {
				d.t.Errorf("killed at %s: %+v counted, want 16 files and 4 directories", step, j.Counts())
			}
			d.call(http.StatusOK, http.MethodDelete, "/v1/fs/"+step, nil)
			if d.t.Failed() {
				d.t.Fatalf("so after a kill at %s", step)
			}
		}
		d.wantSettled()
	})
}

// TestDriveKilledAtEveryBatch kills every server that has committed one transaction of a
// sweep, until the tree is gone. Meanwhile its path is used again.
func TestDriveKilledAtEveryBatch(t *testing.T) {
	t.Parallel()
	onEachDrive(t, func(d *driveWorld) {
		d.start()
		d.grow("/tree")
		d.armed("removal.sweep.between")
		job := d.detached("/tree")
		anew := bytesOf("anew", objectSize)
		d.put("/tree/a/0", anew)
		want := map[string]string{"/tree": "dir", "/tree/a": "dir", "/tree/a/0": sha(anew)}
		kills := 0
		for gone := false; !gone; kills++ {
			d.reached()
			j, ok := d.job(job)
			if gone = j.State == client.Succeeded; !ok || !gone && (j.State.Ended() || kills > 50) {
				d.t.Fatalf("after %d batches: %+v", kills, j)
			}
			d.world.killed()
			d.start()
			d.wantFiles(want)
		}
		d.armed("")
		// 16 files and 3 directories in batches of 5, and the root.
		if kills < 6 {
			d.t.Errorf("killed after %d batches only", kills)
		}
		if j := d.ends(job, client.Succeeded); j.Counts().Files != 16 || j.Counts().Directories != 4 || j.Counts().Transactions != int64(kills) {
			d.t.Errorf("%+v counted, want 16 files and 4 directories in %d transactions", j.Counts(), kills)
		}
		d.wantFiles(want)
		d.wantSettled()
	})
}
