package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/client"
)

// silent is a stream that brings a text and then nothing, until its request is cancelled.
func silent(text string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		resp, err := answer(200, "")(r)
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(text), waiting{r.Context()}))
		return resp, err
	}
}

type waiting struct{ ctx context.Context }

func (w waiting) Read([]byte) (int, error) {
	<-w.ctx.Done()
	return 0, w.ctx.Err()
}

func TestEvents(t *testing.T) {
	t.Parallel()
	const (
		begin = "id: 40\n: the stream begins\n\n"
		one   = "id: 41\nevent: create\ndata: {\"kind\":\"create\",\"path\":\"/a\",\"inode\":7,\"revision\":1}\n\n"
		two   = "id: 42\nevent: rename\ndata: {\"kind\":\"rename\",\ndata: \"path\":\"/b\",\"from\":\"/a\"}\n\n"
		beat  = "id: 50\n: heartbeat\n\n"
		half  = "id: 51\ndata: {\"kind\""
	)
	first := client.Event{ID: 41, Kind: client.EventCreate, Path: "/a", Inode: 7, Revision: 1}
	second := client.Event{ID: 42, Kind: client.EventRename, Path: "/b", From: "/a"}
	type answers = []func(*http.Request) (*http.Response, error)
	tests := []struct {
		name    string
		opts    client.EventOptions
		answers answers
		want    []client.Event
		resumed []string // Last-Event-ID of the requests
		status  int      // of the error at the end, 0 for another error
		least   time.Duration
		most    time.Duration
	}{
		{"refused", client.EventOptions{}, answers{answer(403, "")}, nil, []string{""}, 403, 0, 0},
		{"goes on where it broke", client.EventOptions{}, answers{answer(200, begin+one), answer(200, two), answer(404, "")}, []client.Event{first, second}, []string{"", "41", "42"}, 404, 200 * time.Millisecond, 400 * time.Millisecond},
		{"begins after an id", client.EventOptions{After: 40}, answers{answer(200, one), answer(400, "")}, []client.Event{first}, []string{"40", "41"}, 400, 0, time.Second},
		{"knows where it began", client.EventOptions{}, answers{answer(200, begin), answer(200, one), answer(400, "")}, []client.Event{first}, []string{"", "40", "41"}, 400, 0, time.Second},
		{"moves on with heartbeats, not with half an event", client.EventOptions{}, answers{answer(200, one+beat+half), answer(400, "")}, []client.Event{first}, []string{"", "50"}, 400, 0, time.Second},
		{"retry after", client.EventOptions{}, answers{answer(503, "", "Retry-After", "9"), answer(400, "")}, nil, []string{"", ""}, 400, 9 * time.Second, 9 * time.Second},
		{"five in a row are an error", client.EventOptions{}, answers{broken, broken, broken, broken, answer(503, "")}, nil, []string{"", "", "", "", ""}, 503, 1500 * time.Millisecond, 3 * time.Second},
		{"five again after something came", client.EventOptions{}, answers{broken, broken, answer(200, one), broken, broken, broken, answer(400, "")}, []client.Event{first}, []string{"", "", "", "41", "41", "41", "41"}, 400, 0, time.Minute},
		{"silence is a broken connection", client.EventOptions{}, answers{silent(one), answer(400, "")}, []client.Event{first}, []string{"", "41"}, 400, time.Minute, time.Minute + time.Second},
		{"so is a shorter one on request", client.EventOptions{Quiet: time.Second}, answers{silent(""), answer(400, "")}, nil, []string{"", ""}, 400, time.Second, 2 * time.Second},
		{"nonsense", client.EventOptions{}, answers{answer(200, "id: 1\ndata: {\n\n")}, nil, []string{""}, 0, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: tt.answers}
				var got []client.Event
				var last error
				for e, err := range s.client(t).Drive().Events(t.Context(), tt.opts) {
					if last != nil {
						t.Error("the loop went on after an error")
					}
					if last = err; err == nil {
						got = append(got, e)
					}
				}
				if last == nil || client.StatusOf(last) != tt.status {
					t.Fatalf("ended with %v, want status %d", last, tt.status)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				var resumed []string
				for _, r := range s.requests {
					resumed = append(resumed, r.Header.Get("Last-Event-ID"))
				}
				if diff := cmp.Diff(tt.resumed, resumed); diff != "" {
					t.Errorf("went on after (-want +got):\n%s", diff)
				}
				if took := s.at[len(s.at)-1].Sub(s.at[0]); took < tt.least || took > tt.most {
					t.Errorf("requests lasted %v, want %v to %v", took, tt.least, tt.most)
				}
				if s.open != 0 {
					t.Errorf("%d streams left open", s.open)
				}
			})
		})
	}
}

// TestEventsEnd leaves the loop, and is told to stop.
func TestEventsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const one = "id: 1\ndata: {\"kind\":\"write\",\"path\":\"/a\"}\n\n"
		s := &script{answers: []func(*http.Request) (*http.Response, error){silent(one + one), silent(one)}}
		d := s.client(t).Drive()
		for _, err := range d.Events(t.Context(), client.EventOptions{Path: "/a b"}) {
			if err != nil {
				t.Error(err)
			}
			break
		}
		if s.open != 0 || len(s.requests) != 1 || s.requests[0].URL.RawQuery != "path=%2Fa+b" {
			t.Errorf("%d streams open after %d requests, the first %s", s.open, len(s.requests), s.requests[0].URL)
		}
		reason := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		var last error
		for e, err := range d.Events(ctx, client.EventOptions{}) {
			if e.Kind == client.EventWrite {
				cancel(reason)
			}
			last = err
		}
		if !errors.Is(last, reason) {
			t.Errorf("ended with %v", last)
		}
	})
}
