package client_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/lethe-project/lethe/client"
)

// An answer that was lost does not make a failure of what was done.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	type answers = []func(*http.Request) (*http.Response, error)
	conflict := answer(409, `{"error":{"code":"NotInTrash"}}`)
	empty := func(t *testing.T, d client.Drive) error {
		after, err := d.Trash().Empty(t.Context(), "delete-7")
		if err == nil && (after.ID != "delete-7" || after.State != client.Succeeded || after.Path != "/a") {
			t.Errorf("told %+v", after)
		}
		return err
	}
	abort := func(t *testing.T, d client.Drive) error { return d.AbortUpload(t.Context(), "u-1") }
	for _, tt := range []struct {
		name    string
		call    func(*testing.T, client.Drive) error
		answers answers
		status  int // of the error, 0 for none
	}{
		{"empty", empty, answers{broken, conflict, answer(200, `{"job":"delete-7","state":"SUCCEEDED","object":{"path":"/a","type":"TREE"}}`)}, 0},
		{"empty of what was restored", empty, answers{broken, conflict, answer(200, `{"job":"delete-7","state":"CANCELLED","object":{"path":"/a"}}`)}, 409},
		{"empty, not lost", empty, answers{conflict}, 409},
		{"empty, busy before", empty, answers{answer(503, ""), conflict}, 409},
		{"abort", abort, answers{broken, answer(404, "")}, 0},
		{"abort, not lost", abort, answers{answer(404, "")}, 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: tt.answers}
				if err := tt.call(t, s.client(t).Drive()); (err == nil) != (tt.status == 0) || client.StatusOf(err) != tt.status {
					t.Errorf("error %v, want status %d", err, tt.status)
				}
				if len(s.requests) != len(tt.answers) {
					t.Errorf("%d requests, want %d", len(s.requests), len(tt.answers))
				}
			})
		})
	}
}
