package client_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/client"
)

func TestRemoveAll(t *testing.T) {
	t.Parallel()
	dir := answer(200, `{"path":"/t","type":"directory","inode":7,"etag":"\"7\""}`)
	file := answer(200, `{"path":"/t","type":"file","inode":7,"etag":"\"7-3\""}`)
	gone := answer(200, `{"path":"/t","inode":7,"job":null,"state":"SUCCEEDED","nodes":3,"files":2,"directories":1}`)
	accepted := answer(202, `{"path":"/t","inode":7,"job":"delete-9","state":"RUNNING"}`)
	waiting := answer(202, `{"path":"/t","inode":7,"job":"delete-9","state":"PENDING"}`)
	row := func(text string) func(*http.Request) (*http.Response, error) {
		return answer(200, `{"job":"delete-9","object":{"path":"/t"},`+text+`}`)
	}
	const times = `"createdAt":"2026-03-01T12:00:00Z","updatedAt":"2026-03-01T12:00:00Z","availableAt":`
	done := row(`"state":"SUCCEEDED","progress":{"files":20,"directories":3,"bytes":99,"transactions":4}`)
	jobs := answer(200, `{"jobs":[{"job":"delete-11","object":{"path":"/u"}},{"job":"delete-9","state":"RUNNING","object":{"path":"/t"}}],"nextPageToken":"delete-9"}`)
	busy := answer(503, `{"error":{"code":"DeleteIncomplete"}}`, "Retry-After", "3")
	result := client.Removed{Path: "/t", Inode: 7, State: client.Succeeded, Nodes: 3, Files: 2, Directories: 1}
	swept := client.Removed{Path: "/t", Inode: 7, Job: "delete-9", State: client.Succeeded, Nodes: 23, Files: 20, Directories: 3, Bytes: 99, Transactions: 4}
	type answers = []func(*http.Request) (*http.Response, error)
	tests := []struct {
		name    string
		opts    client.RemoveAllOptions
		answers answers
		want    client.Removed
		fails   error
		ifMatch string // of the DELETEs
	}{
		{"at once", client.RemoveAllOptions{}, answers{dir, gone}, result, nil, `"7"`},
		{"a file", client.RemoveAllOptions{}, answers{file, gone}, result, nil, `"7-3"`},
		{"what was meant", client.RemoveAllOptions{IfMatch: `"5"`}, answers{gone}, result, nil, `"5"`},
		{"503, 503, 200", client.RemoveAllOptions{IfMatch: `"7"`}, answers{busy, busy, gone}, result, nil, `"7"`},
		{"busy for ever", client.RemoveAllOptions{IfMatch: `"7"`}, answers{busy, busy, busy, busy, busy}, client.Removed{}, client.ErrDeleteIncomplete, `"7"`},
		{"followed", client.RemoveAllOptions{}, answers{dir, accepted, row(`"state":"RUNNING"`), done}, swept, nil, `"7"`},
		{"picked up before it is followed", client.RemoveAllOptions{}, answers{dir, waiting, row(`"state":"PENDING",` + times + `"2026-03-01T12:00:00Z"`), row(`"state":"RUNNING"`), done}, swept, nil, `"7"`},
		{"returned", client.RemoveAllOptions{Return: true}, answers{dir, accepted}, client.Removed{Path: "/t", Inode: 7, Job: "delete-9", State: client.Running}, nil, `"7"`},
		{
			"in the trash",
			client.RemoveAllOptions{},
			answers{dir, waiting, row(`"state":"PENDING",` + times + `"2026-03-02T12:00:00Z"`)},
			client.Removed{Path: "/t", Inode: 7, Job: "delete-9", State: client.Pending, InTrash: true},
			nil, `"7"`,
		},
		{"failed in the end", client.RemoveAllOptions{}, answers{dir, accepted, row(`"state":"FAILED","lastError":"disk"`)}, client.Removed{}, errAny, `"7"`},
		{"not there", client.RemoveAllOptions{}, answers{answer(404, "")}, client.Removed{}, errAny, ""},
		{"another tree now", client.RemoveAllOptions{}, answers{dir, answer(412, "")}, client.Removed{}, errAny, `"7"`},
		{"busy, and another tree then", client.RemoveAllOptions{}, answers{dir, busy, answer(412, "")}, client.Removed{}, errAny, `"7"`},
		{"lost, and gone without a job", client.RemoveAllOptions{}, answers{dir, broken, answer(404, ""), answer(200, `{"jobs":[]}`)}, client.Removed{Path: "/t", Inode: 7, State: client.Succeeded}, nil, `"7"`},
		{"lost, and its job found", client.RemoveAllOptions{}, answers{dir, answer(502, ""), answer(412, ""), jobs, done}, swept, nil, `"7"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: tt.answers}
				got, err := s.client(t).Drive().RemoveAll(t.Context(), "/t", tt.opts)
				if (err == nil) != (tt.fails == nil) || tt.fails != nil && !errors.Is(tt.fails, errAny) && !errors.Is(err, tt.fails) {
					t.Fatalf("error %v, want %v", err, tt.fails)
				}
				if diff := cmp.Diff(tt.want, got); err == nil && diff != "" {
					t.Errorf("removed (-want +got):\n%s", diff)
				}
				if len(s.requests) != len(tt.answers) {
					t.Errorf("%d requests, want %d", len(s.requests), len(tt.answers))
				}
				for i, r := range s.requests {
					if r.Method != http.MethodDelete {
						continue
					}
					if r.Header.Get("If-Match") != tt.ifMatch || r.URL.RawQuery != "recursive=true" || (r.Header.Get("Prefer") == "respond-async") != tt.opts.Return {
						t.Errorf("request %d: %s with %v", i+1, r.URL, r.Header)
					}
				}
			})
		})
	}
}

func TestRemoveAllDetails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		row := answer(200, `{"job":"delete-9","state":"FAILED","lastError":"disk"}`)
		s := &script{answers: []func(*http.Request) (*http.Response, error){
			answer(202, `{"job":"delete-9","state":"RUNNING"}`), answer(200, `{"job":"delete-9","state":"RUNNING","progress":{"files":5}}`), row,
			answer(200, `{"files":4}`), answer(202, `{"job":"delete-9","state":"RUNNING"}`), answer(500, ""),
		}}
		d := s.client(t).Drive()
		var seen []int64
		r, err := d.RemoveAll(t.Context(), "/t", client.RemoveAllOptions{IfMatch: `"7"`, Progress: func(j client.Job) { seen = append(seen, j.Counts().Files) }})
		var failed *client.JobFailedError
		if !errors.As(err, &failed) || failed.Job.Job != "delete-9" || err.Error() != "job delete-9 ended FAILED: disk" || r.State != client.Failed {
			t.Errorf("%+v, %v", r, err)
		}
		if diff := cmp.Diff([]int64{5, 0}, seen); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
		if r, err := d.RemoveAll(t.Context(), "/t", client.RemoveAllOptions{IfMatch: `"7"`, DryRun: true}); err != nil || r.Files != 4 || s.requests[3].URL.RawQuery != "dry-run=true&recursive=true" {
			t.Errorf("dry run: %+v, %v by %s", r, err, s.requests[3].URL)
		}
		// Whoever hangs up is told which job goes on.
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if r, err := d.RemoveAll(ctx, "/t", client.RemoveAllOptions{IfMatch: `"7"`}); !errors.Is(err, context.Canceled) || r.Job != "delete-9" {
			t.Errorf("hung up: %+v, %v", r, err)
		}
	})
}

func TestRemove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func(*http.Request) (*http.Response, error){
			answer(409, `{"error":{"code":"DirectoryNotEmpty","message":"x"}}`),
			answer(503, ""), answer(200, `{"files":1}`), // the server did nothing, and says so
			broken, // it may have been done
			answer(200, `{"files":1,"job":"delete-9","state":"PENDING"}`),
		}}
		d, ctx := s.client(t).Drive(), t.Context()
		if _, err := d.Remove(ctx, "/d", client.ChangeOptions{}); !errors.Is(err, client.ErrDirectoryNotEmpty) || client.StatusOf(err) != 409 {
			t.Errorf("error %v", err)
		}
		if r, err := d.Remove(ctx, "/f", client.ChangeOptions{}); err != nil || r.Files != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := d.Remove(ctx, "/f", client.ChangeOptions{}); err == nil || len(s.requests) != 4 {
			t.Errorf("error %v after %d requests, want the lost delete not sent again", err, len(s.requests))
		}
		// Whoever may only delete is told of the trash without a look at the job.
		if r, err := d.Remove(ctx, "/f", client.ChangeOptions{}); err != nil || !r.InTrash || r.Job != "delete-9" || len(s.requests) != 5 {
			t.Errorf("%+v, %v after %d requests", r, err, len(s.requests))
		}
	})
}
