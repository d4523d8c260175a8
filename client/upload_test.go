package client_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/client"
)

// parts is a server that keeps the parts of one upload.
type parts struct {
	mu       sync.Mutex
	size     int64
	kept     map[int]string
	sent     []int // numbers, in the order in which they came
	atOnce   int
	most     int
	fail     func(number int) int // status instead of keeping, 0 for none
	complete func() (int, string) // answer instead of making the file
	file     string
}

func (p *parts) server(t *testing.T) client.Drive {
	t.Helper()
	p.kept = map[int]string{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/uploads", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Size int64 }
		_ = json.NewDecoder(r.Body).Decode(&body)
		p.size = body.Size
		p.show(w)
	})
	mux.HandleFunc("GET /v1/uploads/u-1", func(w http.ResponseWriter, _ *http.Request) { p.show(w) })
	mux.HandleFunc("PUT /v1/uploads/u-1/parts/{number}", p.put)
	mux.HandleFunc("POST /v1/uploads/u-1/complete", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Parts []client.UploadPart }
		_ = json.NewDecoder(r.Body).Decode(&body)
		p.file = ""
		for _, named := range body.Parts {
			p.file += p.kept[named.Number]
		}
		if p.complete != nil {
			status, text := p.complete()
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
			return
		}
		_, _ = fmt.Fprintf(w, `{"path":"/f","size":%d}`, len(p.file))
	})
	mux.HandleFunc("DELETE /v1/uploads/u-1", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /v1/uploads", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"uploads":[{"id":"u-1","path":"/f"}],"nextCursor":null}`)
	})
	mux.HandleFunc("GET /v1/fs/f", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"path":"/f","size":%d}`, len(p.file))
	})
	return serving(t, mux.ServeHTTP).Drive()
}

func (p *parts) show(w http.ResponseWriter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info := client.UploadInfo{ID: "u-1", Path: "/f", State: "OPEN", Size: p.size}
	for n, text := range p.kept {
		info.Parts = append(info.Parts, client.UploadPart{Number: n, Size: int64(len(text)), SHA256: sumOf(text)})
	}
	_ = json.NewEncoder(w).Encode(info)
}

func (p *parts) put(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.PathValue("number"))
	p.mu.Lock()
	p.sent = append(p.sent, n)
	p.atOnce++
	p.most = max(p.most, p.atOnce)
	p.mu.Unlock()
	raw, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.atOnce--
	if p.fail != nil {
		if status := p.fail(n); status != 0 {
			http.Error(w, `{}`, status)
			return
		}
	}
	p.kept[n] = string(raw)
	sum := sha256.Sum256(raw)
	_ = json.NewEncoder(w).Encode(client.UploadPart{Number: n, Size: int64(len(raw)), SHA256: hex.EncodeToString(sum[:])})
}

const letters = "abcdefghijklmnopqrstuvwxyz"

func TestUpload(t *testing.T) {
	t.Parallel()
	p := &parts{}
	d := p.server(t)
	var arrived []int64
	e, err := d.Upload(t.Context(), "/f", strings.NewReader(letters), 26, client.UploadOptions{
		PartSize: 5, Parallel: 3, Progress: func(n int64) { arrived = append(arrived, n) },
	})
	if err != nil || e.Size != 26 || p.file != letters || p.size != 26 {
		t.Fatalf("%+v, %v: the server made %q", e, err, p.file)
	}
	if len(p.sent) != 6 || p.most > 3 || len(arrived) != 6 || arrived[5] != 26 {
		t.Errorf("parts %v, %d at once, progress %v", p.sent, p.most, arrived)
	}
	if open := collect(t, d.Uploads(t.Context())); len(open) != 1 || open[0].ID != "u-1" {
		t.Errorf("open uploads %+v", open)
	}
}

// TestUploadResume goes on with an upload that failed: what arrived and is the same is
// not sent again.
func TestUploadResume(t *testing.T) {
	t.Parallel()
	p := &parts{fail: func(n int) int {
		if n == 4 {
			return http.StatusInsufficientStorage
		}
		return 0
	}}
	d := p.server(t)
	ctx := t.Context()
	opts := client.UploadOptions{PartSize: 5, Parallel: 1}
	_, err := d.Upload(ctx, "/f", strings.NewReader(letters), 26, opts)
	var failed *client.UploadError
	if !errors.As(err, &failed) || failed.ID != "u-1" || client.StatusOf(err) != http.StatusInsufficientStorage {
		t.Fatalf("error %v", err)
	}
	if diff := cmp.Diff([]int{1, 2, 3, 4}, p.sent); diff != "" {
		t.Errorf("parts before (-want +got):\n%s", diff)
	}
	p.sent, p.fail = nil, nil
	changed := "ABCDE" + letters[5:] // the first part is another one now
	for name, o := range map[string]struct {
		path string
		size int64
	}{"another path": {"/g", 26}, "another size": {"/f", 25}} {
		if _, err := d.Upload(ctx, o.path, strings.NewReader(changed), o.size, client.UploadOptions{Resume: "u-1"}); err == nil {
			t.Errorf("%s was taken for the same upload", name)
		}
	}
	opts.Resume = failed.ID
	if _, err := d.Upload(ctx, "/f", strings.NewReader(changed), 26, opts); err != nil || p.file != changed {
		t.Fatalf("%v: the server made %q", err, p.file)
	}
	if diff := cmp.Diff([]int{1, 4, 5, 6}, p.sent); diff != "" {
		t.Errorf("parts after (-want +got):\n%s", diff)
	}
	if err := d.AbortUpload(ctx, "u-1"); err != nil {
		t.Error(err)
	}
}

// TestUploadLostAnswer sends parts again, and knows its own file when the answer to
// complete was lost.
func TestUploadLostAnswer(t *testing.T) {
	t.Parallel()
	failed, completed := false, 0
	p := &parts{fail: func(n int) int {
		if n == 2 && !failed {
			failed = true
			return http.StatusBadGateway
		}
		return 0
	}}
	p.complete = func() (int, string) {
		if completed++; completed == 1 {
			return http.StatusBadGateway, ""
		}
		return http.StatusConflict, `{"error":{"code":"UploadCompleted"}}`
	}
	e, err := p.server(t).Upload(t.Context(), "/f", strings.NewReader(letters), 26, client.UploadOptions{PartSize: 10})
	if err != nil || e.Size != 26 || p.file != letters || len(p.sent) != 4 {
		t.Errorf("%+v, %v: the server made %q of %v", e, err, p.file, p.sent)
	}
}

// TestUploadConflict is told when somebody else completed it.
func TestUploadConflict(t *testing.T) {
	t.Parallel()
	p := &parts{complete: func() (int, string) { return http.StatusConflict, `{"error":{"code":"UploadCompleted"}}` }}
	if _, err := p.server(t).Upload(t.Context(), "/f", strings.NewReader("x"), 1, client.UploadOptions{}); client.CodeOf(err) != "UploadCompleted" {
		t.Errorf("error %v", err)
	}
}

func TestUploadEnds(t *testing.T) {
	t.Parallel()
	p := &parts{}
	d := p.server(t)
	if _, err := d.Upload(t.Context(), "/f", strings.NewReader("short"), 26, client.UploadOptions{PartSize: 5, Parallel: 1}); err == nil {
		t.Error("a reader that ends early was taken")
	}
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := d.Upload(ctx, "/f", strings.NewReader(letters), 26, client.UploadOptions{PartSize: 1, Parallel: 2, Progress: func(int64) { cancel(reason) }})
	if !errors.Is(err, reason) {
		t.Errorf("error %v", err)
	}
}
