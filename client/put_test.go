package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lethe-project/lethe/client"
)

// taking reads a request's body before it answers.
func taking(got *[]string, then func(*http.Request) (*http.Response, error)) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		raw := []byte{}
		if r.Body != nil {
			var err error
			if raw, err = io.ReadAll(r.Body); err != nil {
				return nil, err
			}
		}
		*got = append(*got, fmt.Sprintf("%d %s", r.ContentLength, raw))
		return then(r)
	}
}

func TestPut(t *testing.T) {
	t.Parallel()
	stored := func(text string) func(*http.Request) (*http.Response, error) {
		return answer(201, `{"path":"/f","sha256":"`+sumOf(text)+`"}`)
	}
	reader := func(text string) io.Reader { return strings.NewReader(text) }
	pipe := func(text string) io.Reader { return struct{ io.Reader }{strings.NewReader(text)} }
	middle := func(text string) io.Reader {
		r := strings.NewReader("head" + text)
		_, _ = r.Seek(4, io.SeekStart)
		return r
	}
	type answers = []func(*http.Request) (*http.Response, error)
	tests := []struct {
		name    string
		body    func(string) io.Reader
		text    string
		opts    client.PutOptions
		answers answers // of the server, after it has read all
		lengths string
		fails   bool
	}{
		{"a reader that knows its end", reader, "bytes", client.PutOptions{}, answers{stored("bytes")}, "5", false},
		{"empty", reader, "", client.PutOptions{}, answers{stored("")}, "0", false},
		{"a pipe", pipe, "bytes", client.PutOptions{}, answers{stored("bytes")}, "-1", false},
		{"a pipe of a known size", pipe, "bytes", client.PutOptions{Size: 5}, answers{stored("bytes")}, "5", false},
		{"sent again", reader, "bytes", client.PutOptions{}, answers{answer(503, ""), broken, stored("bytes")}, "5 5 5", false},
		{"sent again from where it was", middle, "bytes", client.PutOptions{}, answers{broken, stored("bytes")}, "5 5", false},
		{"a pipe is not sent again", pipe, "bytes", client.PutOptions{}, answers{answer(503, "")}, "-1", true},
		{"nor is one with a condition", reader, "bytes", client.PutOptions{NoReplace: true}, answers{broken}, "5", true},
		{"final", reader, "bytes", client.PutOptions{}, answers{answer(507, "")}, "5", true},
		{"five requests are all", reader, "b", client.PutOptions{}, answers{broken, broken, broken, broken, broken}, "1 1 1 1 1", true},
		{"other bytes were stored", reader, "bytes", client.PutOptions{}, answers{stored("other")}, "5", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var got []string
				s := &script{}
				for _, a := range tt.answers {
					s.answers = append(s.answers, taking(&got, a))
				}
				_, err := s.client(t).Drive().Put(t.Context(), "/f", tt.body(tt.text), tt.opts)
				if (err != nil) != tt.fails {
					t.Fatalf("error %v", err)
				}
				var want []string
				for length := range strings.SplitSeq(tt.lengths, " ") {
					want = append(want, strings.Replace(length, "-1", "0", 1)+" "+tt.text)
				}
				if strings.Join(got, "|") != strings.Join(want, "|") {
					t.Errorf("sent %q, want %q", got, want)
				}
			})
		})
	}
}

func TestPutHeaders(t *testing.T) {
	t.Parallel()
	var got []string
	s := &script{answers: []func(*http.Request) (*http.Response, error){taking(&got, answer(201, `{}`)), taking(&got, answer(200, `{}`))}}
	d := s.client(t).Drive()
	big := bytes.Repeat([]byte("x"), 1<<20)
	if _, err := d.Put(t.Context(), "/f", bytes.NewReader(big), client.PutOptions{SHA256: "ab", IfMatch: `"1-1"`, Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	r := s.requests[0]
	if r.Method != "PUT" || r.URL.RawQuery != "mode=600" || r.Header.Get("X-Lethe-Sha256") != "ab" || r.Header.Get("If-Match") != `"1-1"` || r.Header.Get("Expect") != "100-continue" {
		t.Errorf("sent %s %s %v", r.Method, r.URL, r.Header)
	}
	if _, err := d.Append(t.Context(), "/f", strings.NewReader("x"), client.ChangeOptions{}); err != nil {
		t.Fatal(err)
	}
	if r := s.requests[1]; r.Method != "POST" || r.URL.RawQuery != "op=append" || r.Header.Get("Expect") != "" {
		t.Errorf("sent %s %s %v", r.Method, r.URL, r.Header)
	}
}

// TestPutBrokenReader tells what reading failed with, and sends nothing again.
func TestPutBrokenReader(t *testing.T) {
	t.Parallel()
	reason := errors.New("the disk is on fire")
	var got []string
	s := &script{answers: []func(*http.Request) (*http.Response, error){taking(&got, answer(201, `{}`))}}
	body := &failing{strings.NewReader("some bytes"), reason}
	if _, err := s.client(t).Drive().Put(t.Context(), "/f", body, client.PutOptions{}); !errors.Is(err, reason) || len(s.requests) != 1 {
		t.Errorf("error %v by %d requests", err, len(s.requests))
	}
}

// failing is a file that cannot be read.
type failing struct {
	*strings.Reader
	reason error
}

func (f *failing) Read([]byte) (int, error)                     { return 0, f.reason }
func (f *failing) WriteTo(io.Writer) (int64, error)             { return 0, f.reason }
func (f *failing) Seek(offset int64, whence int) (int64, error) { return f.Reader.Seek(offset, whence) }

// TestPutEarlyAnswer answers while the body is still read: the next try begins anew all
// the same, and nobody reads two tries at once.
func TestPutEarlyAnswer(t *testing.T) {
	t.Parallel()
	tries := 0
	text := strings.Repeat("0123456789", 200_000)
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries < 3 {
			_, _ = io.CopyN(io.Discard, r.Body, 100_000)
			w.Header().Set("Connection", "close")
			http.Error(w, `{}`, http.StatusServiceUnavailable)
			return
		}
		raw, _ := io.ReadAll(r.Body)
		if string(raw) != text {
			http.Error(w, `{}`, http.StatusTeapot)
			return
		}
		_, _ = io.WriteString(w, `{"path":"/f"}`)
	})
	if e, err := c.Drive().Put(t.Context(), "/f", strings.NewReader(text), client.PutOptions{}); err != nil || e.Path != "/f" {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestPutCancelled does not wait for a reader that brings nothing.
func TestPutCancelled(t *testing.T) {
	t.Parallel()
	reason := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	c := serving(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, 1)
		cancel(reason)
		_, _ = io.Copy(io.Discard, r.Body)
	})
	go func() { _, _ = io.WriteString(w, "x") }()
	if _, err := c.Drive().Put(ctx, "/f", r, client.PutOptions{}); !errors.Is(err, reason) {
		t.Errorf("error %v", err)
	}
}
