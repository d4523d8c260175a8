package client_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/client"
)

// collect walks a list to its end.
func collect[T any](t *testing.T, seq func(func(T, error) bool)) []T {
	t.Helper()
	var out []T
	for item, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, item)
	}
	return out
}

// TestDriveCalls holds each call to the API of the server.
func TestDriveCalls(t *testing.T) {
	t.Parallel()
	at, five := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), int64(5)
	const found = `{"name":"b","path":"/a/b","type":"file","size":3,"inode":7,"revision":2,"mtime":"2026-03-01T12:00:00Z","nlink":1,"mode":"0640","etag":"\"7-2\""}`
	entry := client.Entry{Name: "b", Path: "/a/b", Type: client.FileType, Size: 3, Inode: 7, Revision: 2, MTime: at, NLink: 1, Mode: "0640", ETag: `"7-2"`}
	type asked struct{ Line, Body, IfMatch, NoneMatch string }
	tests := []struct {
		name   string
		call   func(context.Context, client.Drive) (any, error)
		answer string
		want   any
		asked  asked
	}{
		{
			"stat", func(ctx context.Context, d client.Drive) (any, error) { return d.Stat(ctx, "/a/b") },
			found, entry,
			asked{Line: "GET /v1/fs/a/b?stat="},
		},
		{
			"lstat of an odd name", func(ctx context.Context, d client.Drive) (any, error) { return d.Lstat(ctx, "/a b/100%/ü+?#/..") },
			found, entry,
			asked{Line: "GET /v1/fs/a%20b/100%25/%C3%BC%2B%3F%23/%2E%2E?follow=false&stat="},
		},
		{
			"list", func(ctx context.Context, d client.Drive) (any, error) { return collect(t, d.List(ctx, "/")), nil },
			`{"entries":[` + found + `],"nextCursor":null}`,
			[]client.Entry{entry},
			asked{Line: "GET /v1/fs/?list="},
		},
		{
			"mkdir", func(ctx context.Context, d client.Drive) (any, error) {
				return d.Mkdir(ctx, "/a", client.MkdirOptions{Parents: true, Mode: 0o750})
			},
			found, entry,
			asked{Line: "POST /v1/fs/a?op=mkdir", Body: `{"mode":"0750","parents":true}`},
		},
		{
			"rename", func(ctx context.Context, d client.Drive) (any, error) {
				return d.Rename(ctx, "/a", "/a/b", client.ChangeOptions{NoReplace: true})
			},
			found, entry,
			asked{Line: "POST /v1/fs/a?op=rename", Body: `{"to":"/a/b"}`, NoneMatch: "*"},
		},
		{
			"copy", func(ctx context.Context, d client.Drive) (any, error) {
				return d.Copy(ctx, "/x", "/a/b", client.ChangeOptions{IfMatch: `"9-1"`})
			},
			found, entry,
			asked{Line: "POST /v1/fs/x?op=copy", Body: `{"to":"/a/b"}`, IfMatch: `"9-1"`},
		},
		{
			"link", func(ctx context.Context, d client.Drive) (any, error) { return d.Link(ctx, "/x", "/a/b") },
			found, entry,
			asked{Line: "POST /v1/fs/x?op=link", Body: `{"to":"/a/b"}`},
		},
		{
			"symlink", func(ctx context.Context, d client.Drive) (any, error) { return d.Symlink(ctx, "/a/b", "../x") },
			found, entry,
			asked{Line: "POST /v1/fs/a/b?op=symlink", Body: `{"target":"../x"}`},
		},
		{
			"chmod", func(ctx context.Context, d client.Drive) (any, error) {
				return d.Chmod(ctx, "/a/b", 0o640, client.ChangeOptions{})
			},
			found, entry,
			asked{Line: "POST /v1/fs/a/b?op=chmod", Body: `{"mode":"0640"}`},
		},
		{
			"tags", func(ctx context.Context, d client.Drive) (any, error) { return d.Tags(ctx, "/a") },
			`{"tags":{"k":"v"}}`,
			map[string]string{"k": "v"},
			asked{Line: "GET /v1/fs/a?tags="},
		},
		{
			"tag", func(ctx context.Context, d client.Drive) (any, error) {
				return d.Tag(ctx, "/a", map[string]string{"k": "v"}, []string{"x"})
			},
			`{"tags":{"k":"v"}}`,
			map[string]string{"k": "v"},
			asked{Line: "POST /v1/fs/a?op=tag", Body: `{"remove":["x"],"set":{"k":"v"}}`},
		},
		{
			"remove", func(ctx context.Context, d client.Drive) (any, error) {
				return d.Remove(ctx, "/a/b", client.ChangeOptions{IfMatch: `"7-2"`})
			},
			`{"path":"/a/b","inode":7,"job":null,"state":"SUCCEEDED","nodes":1,"files":1}`,
			client.Removed{Path: "/a/b", Inode: 7, State: client.Succeeded, Nodes: 1, Files: 1},
			asked{Line: "DELETE /v1/fs/a/b", IfMatch: `"7-2"`},
		},
		{
			"usage", func(ctx context.Context, d client.Drive) (any, error) { return d.Usage(ctx) },
			`{"bytes":1,"files":2,"reserved":3,"quotaBytes":4,"quotaFiles":5}`,
			client.DriveUsage{Bytes: 1, Files: 2, Reserved: 3, QuotaBytes: 4, QuotaFiles: 5},
			asked{Line: "GET /v1/usage"},
		},
		{
			"check", func(ctx context.Context, d client.Drive) (any, error) { return d.Check(ctx) },
			`{"ok":false,"counted":{"bytes":1},"recorded":{"bytes":2},"problems":["p"]}`,
			client.DriveCheck{Counted: client.DriveUsage{Bytes: 1}, Recorded: client.DriveUsage{Bytes: 2}, Problems: []string{"p"}},
			asked{Line: "POST /v1/check"},
		},
		{
			"reconcile", func(ctx context.Context, d client.Drive) (any, error) { return nil, d.Reconcile(ctx) },
			`{"scheduled":true}`, nil,
			asked{Line: "POST /v1/reconcile"},
		},
		{
			"dry reconcile", func(ctx context.Context, d client.Drive) (any, error) { return d.DryReconcile(ctx) },
			`{"found":{"dentry":3}}`,
			map[string]int64{"dentry": 3},
			asked{Line: "POST /v1/reconcile?dry-run=true"},
		},
		{
			"scrub", func(ctx context.Context, d client.Drive) (any, error) {
				found, err := d.Scrub(ctx, true)
				return string(found["samples"]), err
			},
			`{"listed":1,"samples":["k"]}`, `["k"]`,
			asked{Line: "POST /v1/scrub?repair=true"},
		},
		{
			"trash", func(ctx context.Context, d client.Drive) (any, error) { return collect(t, d.Trash().List(ctx)), nil },
			`{"trash":[{"id":"delete-7","kind":"TREE","path":"/a","inode":7,"state":"PENDING","restorable":true,"size":null,"deletedBy":"eve","deletedAt":"2026-03-01T12:00:00Z","until":"2026-03-01T12:00:00Z"},{"id":"delete-6","kind":"FILE","size":5}],"nextCursor":null}`,
			[]client.Trashed{{ID: "delete-7", Kind: "TREE", Path: "/a", Inode: 7, State: client.Pending, Restorable: true, DeletedBy: "eve", DeletedAt: at, Until: &at}, {ID: "delete-6", Kind: "FILE", Size: &five}},
			asked{Line: "GET /v1/trash"},
		},
		{
			"restore", func(ctx context.Context, d client.Drive) (any, error) {
				return d.Trash().Restore(ctx, "delete-7", "/b")
			},
			`{"path":"/b","inode":7,"job":"delete-7"}`,
			client.Restored{Path: "/b", Inode: 7, Job: "delete-7"},
			asked{Line: "POST /v1/trash/delete-7/restore", Body: `{"to":"/b"}`},
		},
		{
			"empty", func(ctx context.Context, d client.Drive) (any, error) { return d.Trash().Empty(ctx, "delete-7") },
			`{"id":"delete-7","path":"/a"}`,
			client.Trashed{ID: "delete-7", Path: "/a"},
			asked{Line: "DELETE /v1/trash/delete-7"},
		},
		{
			"empty all", func(ctx context.Context, d client.Drive) (any, error) { return d.Trash().EmptyAll(ctx) },
			`{"emptied":3}`, int64(3),
			asked{Line: "DELETE /v1/trash"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got asked
			c := serving(t, func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				got = asked{r.Method + " " + r.RequestURI, string(raw), r.Header.Get("If-Match"), r.Header.Get("If-None-Match")}
				_, _ = io.WriteString(w, tt.answer)
			})
			answer, err := tt.call(t.Context(), c.Drive())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, answer); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.asked, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

// serving returns a client of a server that answers with h.
func serving(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		srv.Client().CloseIdleConnections()
		srv.Close()
	})
	c, err := client.New(client.Options{URI: srv.URL, HTTPClient: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestListByCursor walks from page to page by what the server calls a cursor.
func TestListByCursor(t *testing.T) {
	t.Parallel()
	s := &script{answers: []func(*http.Request) (*http.Response, error){
		answer(200, `{"entries":[{"name":"a"},{"name":"b"}],"nextCursor":"c/1"}`),
		answer(200, `{"entries":[{"name":"c"}],"nextCursor":null}`),
	}}
	entries := collect(t, s.client(t).Drive().List(t.Context(), "/d"))
	if len(entries) != 3 || entries[2].Name != "c" {
		t.Errorf("entries %+v", entries)
	}
	if got, want := s.requests[1].URL.RawQuery, "cursor=c%2F1&list="; got != want {
		t.Errorf("second page by %s, want %s", got, want)
	}
}

func TestRelativePaths(t *testing.T) {
	t.Parallel()
	s := &script{}
	d, ctx := s.client(t).Drive(), t.Context()
	for name, call := range map[string]func() error{
		"stat":   func() error { _, err := d.Stat(ctx, "a"); return err },
		"get":    func() error { _, err := d.Get(ctx, "", client.GetOptions{}); return err },
		"put":    func() error { _, err := d.Put(ctx, "a/b", nil, client.PutOptions{}); return err },
		"append": func() error { _, err := d.Append(ctx, "a", nil, client.ChangeOptions{}); return err },
		"mkdir":  func() error { _, err := d.Mkdir(ctx, "a", client.MkdirOptions{}); return err },
		"remove": func() error { _, err := d.Remove(ctx, "a", client.ChangeOptions{}); return err },
		"all":    func() error { _, err := d.RemoveAll(ctx, "a", client.RemoveAllOptions{}); return err },
		"upload": func() error { _, err := d.Upload(ctx, "a", nil, 1, client.UploadOptions{}); return err },
	} {
		if call() == nil || len(s.requests) > 0 {
			t.Errorf("%s of a relative path was sent", name)
		}
	}
}

// TestDriveRetry repeats what does the same twice, and nothing else.
func TestDriveRetry(t *testing.T) {
	t.Parallel()
	none := client.ChangeOptions{}
	tests := []struct {
		name  string
		call  func(context.Context, client.Drive) error
		again bool
	}{
		{"mkdir -p", func(ctx context.Context, d client.Drive) error {
			_, err := d.Mkdir(ctx, "/a", client.MkdirOptions{Parents: true})
			return err
		}, true},
		{"mkdir", func(ctx context.Context, d client.Drive) error {
			_, err := d.Mkdir(ctx, "/a", client.MkdirOptions{})
			return err
		}, false},
		{"rename", func(ctx context.Context, d client.Drive) error { _, err := d.Rename(ctx, "/a", "/b", none); return err }, false},
		{"copy", func(ctx context.Context, d client.Drive) error { _, err := d.Copy(ctx, "/a", "/b", none); return err }, true},
		{"copy with a condition", func(ctx context.Context, d client.Drive) error {
			_, err := d.Copy(ctx, "/a", "/b", client.ChangeOptions{NoReplace: true})
			return err
		}, false},
		{"link", func(ctx context.Context, d client.Drive) error { _, err := d.Link(ctx, "/a", "/b"); return err }, false},
		{"tag", func(ctx context.Context, d client.Drive) error { _, err := d.Tag(ctx, "/a", nil, nil); return err }, true},
		{"restore", func(ctx context.Context, d client.Drive) error { _, err := d.Trash().Restore(ctx, "x", ""); return err }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: []func(*http.Request) (*http.Response, error){broken, answer(200, `{}`)}}
				err := tt.call(t.Context(), s.client(t).Drive())
				if (err == nil) != tt.again || (len(s.requests) == 2) != tt.again {
					t.Errorf("%d requests, error %v; repeated should be %v", len(s.requests), err, tt.again)
				}
			})
		})
	}
}
