package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/client"
)

// TestSDK holds the client to a real server, where its own tests have a made-up one.
func TestSDK(t *testing.T) {
	t.Parallel()
	operator := serve(t)
	ctx, drive := t.Context(), operator.Drive()
	t.Run("events", func(t *testing.T) { followEvents(ctx, t, drive) })
	t.Run("upload", func(t *testing.T) { resumeUpload(ctx, t, drive) })
	t.Run("append and ranges", func(t *testing.T) {
		if _, err := drive.Put(ctx, "/log", bytes.NewReader([]byte("one")), client.PutOptions{NoReplace: true}); err != nil {
			t.Fatal(err)
		}
		e, err := drive.Append(ctx, "/log", bytes.NewReader([]byte(" two")), client.ChangeOptions{})
		if err != nil || e.Size != 7 {
			t.Fatalf("%+v, %v", e, err)
		}
		f, err := drive.Get(ctx, "/log", client.GetOptions{Offset: 4, Length: 2, IfMatch: e.ETag})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got, err := io.ReadAll(f); string(got) != "tw" || err != nil {
			t.Errorf("range %q, %v", got, err)
		}
		if _, err := drive.Put(ctx, "/log", bytes.NewReader(nil), client.PutOptions{NoReplace: true}); client.StatusOf(err) != http.StatusPreconditionFailed {
			t.Errorf("a file that is there was replaced: %v", err)
		}
	})
	t.Run("what was meant", func(t *testing.T) {
		old, err := drive.Mkdir(ctx, "/meant", client.MkdirOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := drive.RemoveAll(ctx, "/meant", client.RemoveAllOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := drive.Put(ctx, "/meant/new", bytes.NewReader(nil), client.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := drive.RemoveAll(ctx, "/meant", client.RemoveAllOptions{IfMatch: old.ETag}); client.StatusOf(err) != http.StatusPreconditionFailed {
			t.Errorf("the tree that was made since: %v", err)
		}
		if _, err := drive.Stat(ctx, "/meant/new"); err != nil {
			t.Error(err)
		}
	})
}

// followEvents sees what happens from the beginning, leaves, and goes on where it was.
func followEvents(ctx context.Context, t *testing.T, drive client.Drive) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, errors.New("the events did not come"))
	defer cancel()
	if _, err := drive.Mkdir(ctx, "/ev", client.MkdirOptions{}); err != nil {
		t.Fatal(err)
	}
	anchor := anEvent(ctx, t, drive)
	read := func(after int64, want int) (events []client.Event) {
		for e, err := range drive.Events(ctx, client.EventOptions{Path: "/ev", After: after}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Path == ping {
				continue
			}
			if events = append(events, e); len(events) == want {
				return events
			}
		}
		return events
	}
	for _, name := range []string{"/ev/a", "/ev/b"} {
		if _, err := drive.Put(ctx, name, bytes.NewReader(nil), client.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := drive.Rename(ctx, "/ev/a", "/ev/c", client.ChangeOptions{}); err != nil {
		t.Fatal(err)
	}
	type seen struct {
		Kind       client.EventKind
		Path, From string
	}
	want := []seen{{client.EventCreate, "/ev/a", ""}, {client.EventCreate, "/ev/b", ""}, {client.EventRename, "/ev/c", "/ev/a"}}
	all := read(anchor, len(want))
	got := make([]seen, len(all))
	for i, e := range all {
		got[i] = seen{e.Kind, e.Path, e.From}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if rest := read(all[0].ID, 2); rest[0].Path != "/ev/b" || rest[1].ID != all[2].ID {
		t.Errorf("after %d came %+v", all[0].ID, rest)
	}
}

const ping = "/ev/ping"

// anEvent returns the ID of some event: a stream begins with what happens next, so
// something happens until it has begun.
func anEvent(ctx context.Context, t *testing.T, drive client.Drive) int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	id, done := make(chan int64, 1), make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range drive.Events(ctx, client.EventOptions{Path: "/ev"}) {
			if err != nil && ctx.Err() == nil {
				t.Errorf("the stream: %v", err)
			}
			id <- e.ID
			return
		}
	}()
	defer func() { cancel(); <-done }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := drive.Put(ctx, ping, bytes.NewReader(nil), client.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		select {
		case first := <-id:
			return first
		case <-tick.C:
		}
	}
}

// resumeUpload breaks an upload off and goes on with it.
func resumeUpload(ctx context.Context, t *testing.T, drive client.Drive) {
	t.Helper()
	const partSize = 64 << 10
	whole := make([]byte, 10*partSize+5)
	source := rand.NewChaCha8([32]byte{1})
	if _, err := source.Read(whole); err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(ctx)
	opts := client.UploadOptions{PartSize: partSize, Parallel: 2, Progress: func(n int64) {
		if n >= 3*partSize {
			stop()
		}
	}}
	_, err := drive.Upload(stopped, "/up/big", bytes.NewReader(whole), int64(len(whole)), opts)
	var broken *client.UploadError
	if !errors.As(err, &broken) || !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if _, err := drive.Stat(ctx, "/up/big"); !client.IsNotFound(err) {
		t.Errorf("half a file is there: %v", err)
	}
	before, err := drive.UploadInfo(ctx, broken.ID)
	if err != nil || len(before.Parts) < 3 || len(before.Parts) == 11 {
		t.Fatalf("%d parts arrived, %v", len(before.Parts), err)
	}
	opts.Resume, opts.Progress = broken.ID, nil
	e, err := drive.Upload(ctx, "/up/big", bytes.NewReader(whole), int64(len(whole)), opts)
	if err != nil || e.Size != int64(len(whole)) {
		t.Fatalf("%+v, %v", e, err)
	}
	f, err := drive.Get(ctx, "/up/big", client.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); !bytes.Equal(got, whole) || err != nil {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	if usage, err := drive.Usage(ctx); err != nil || usage.Reserved != 0 {
		t.Errorf("reserved %d, %v", usage.Reserved, err)
	}
}
