package client_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lethe-project/lethe/client"
)

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// part answers with bytes of a whole, and breaks off after n of them when n is not
// negative.
func part(status int, whole string, from, n int, header ...string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		resp, err := answer(status, whole[from:], append(header, "ETag", `"7-1"`)...)(r)
		resp.ContentLength = int64(len(whole) - from)
		if status == http.StatusPartialContent {
			resp.Header.Set("Content-Range", "bytes "+strconv.Itoa(from)+"-"+strconv.Itoa(len(whole)-1)+"/"+strconv.Itoa(len(whole)))
		}
		if n >= 0 {
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(whole[from:from+n]), brokenReader{}))
		}
		return resp, err
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestGet(t *testing.T) {
	t.Parallel()
	const whole = "0123456789"
	sum := []string{"X-Lethe-Sha256", sumOf(whole)}
	type answers = []func(*http.Request) (*http.Response, error)
	tests := []struct {
		name    string
		opts    client.GetOptions
		answers answers
		want    string
		fails   error  // nil for success; errAny for some error
		last    string // Range of the last request
	}{
		{"whole", client.GetOptions{}, answers{part(200, whole, 0, -1, sum...)}, whole, nil, ""},
		{"empty", client.GetOptions{}, answers{part(200, "", 0, -1, "X-Lethe-Sha256", sumOf(""))}, "", nil, ""},
		{"busy, then well", client.GetOptions{}, answers{answer(503, "", "Retry-After", "2"), part(200, whole, 0, -1)}, whole, nil, ""},
		{"range", client.GetOptions{Offset: 4, Length: 3}, answers{part(206, whole[:7], 4, -1)}, "456", nil, "bytes=4-6"},
		{"to the end", client.GetOptions{Offset: 4}, answers{part(206, whole, 4, -1)}, "456789", nil, "bytes=4-"},
		{"broken in between", client.GetOptions{}, answers{part(200, whole, 0, 3, sum...), broken, part(206, whole, 3, 2), part(206, whole, 5, -1)}, whole, nil, "bytes=5-9"},
		{"a range that breaks", client.GetOptions{Offset: 2}, answers{part(206, whole, 2, 3), part(206, whole, 5, -1)}, "23456789", nil, "bytes=5-9"},
		{"broken five times", client.GetOptions{}, answers{part(200, whole, 0, 1), part(206, whole, 1, 1), part(206, whole, 2, 1), part(206, whole, 3, 1), part(206, whole, 4, 1)}, "01234", errAny, "bytes=4-9"},
		{"another file meanwhile", client.GetOptions{}, answers{part(200, whole, 0, 3), answer(412, "")}, "012", errAny, "bytes=3-9"},
		{"other bytes", client.GetOptions{}, answers{part(200, whole, 0, -1, "X-Lethe-Sha256", sumOf("x"))}, whole, client.ErrChecksum, ""},
		{"a range of an empty file", client.GetOptions{Length: 3}, answers{part(200, "", 0, -1, "X-Lethe-Sha256", sumOf(""))}, "", nil, "bytes=0-2"},
		{"a range behind an empty file", client.GetOptions{Offset: 2}, answers{part(200, "", 0, -1)}, "", errAny, "bytes=2-"},
		{"a range that is ignored", client.GetOptions{Offset: 4}, answers{part(200, whole, 0, -1)}, "", errAny, "bytes=4-"},
		{"another range", client.GetOptions{}, answers{part(200, whole, 0, 3), part(206, whole, 2, -1)}, "012", errAny, "bytes=3-9"},
		{"not found", client.GetOptions{}, answers{answer(404, "")}, "", errAny, ""},
		{"nonsense", client.GetOptions{Offset: -1}, nil, "", errAny, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: tt.answers}
				var got []byte
				f, err := s.client(t).Drive().Get(t.Context(), "/f", tt.opts)
				if err == nil {
					got, err = io.ReadAll(f)
					if err == nil && f.Size != int64(len(got)) {
						t.Errorf("size %d of %d bytes", f.Size, len(got))
					}
					if cerr := f.Close(); cerr != nil {
						t.Error(cerr)
					}
				}
				if (err == nil) != (tt.fails == nil) || tt.fails != nil && !errors.Is(tt.fails, errAny) && !errors.Is(err, tt.fails) {
					t.Fatalf("error %v, want %v", err, tt.fails)
				}
				if string(got) != tt.want || len(s.requests) != len(tt.answers) {
					t.Errorf("read %q by %d requests, want %q by %d", got, len(s.requests), tt.want, len(tt.answers))
				}
				for i, r := range s.requests {
					if i > 0 && s.requests[0].Header.Get("If-Match") == "" && r.Header.Get("Range") != "" && r.Header.Get("If-Match") != `"7-1"` {
						t.Errorf("request %d goes on without naming the file", i+1)
					}
					if i == len(s.requests)-1 && r.Header.Get("Range") != tt.last {
						t.Errorf("range %q, want %q", r.Header.Get("Range"), tt.last)
					}
				}
				if s.open > 0 { // one that is closed twice is well
					t.Errorf("%d bodies left open", s.open)
				}
			})
		})
	}
}

var errAny = errors.New("any error")
