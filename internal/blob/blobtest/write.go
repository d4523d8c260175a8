package blobtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob"
)

func (s suite) deleteMany(t *testing.T) {
	for _, n := range []int{1, 2, 999, blob.MaxDelete} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			b := s.open(t)
			// Only some of the keys exist, which keeps a suite of real files quick.
			keys := make([]blob.Key, n)
			var want []blob.Outcome
			for i := range keys {
				keys[i] = blob.Key(fmt.Sprintf("t/p=%d/f%d", i%7, i))
				outcome := blob.Missing
				if i%10 == 0 {
					put(t, b, keys[i], "x")
					outcome = blob.Deleted
				}
				if !s.caps.TellsMissing {
					outcome = blob.Deleted
				}
				want = append(want, outcome)
			}
			put(t, b, "t/p=0/f", "stays")
			got := b.DeleteMany(t.Context(), keys)
			if len(got) != n {
				t.Fatalf("%d results for %d keys", len(got), n)
			}
			for i, r := range got {
				if r.Key != keys[i] {
					t.Fatalf("result %d is of %q, want %q: not in the order of keys", i, r.Key, keys[i])
				}
			}
			wantOutcomes(t, got, want...)
			wantKeys(t, b, "", "t/p=0/f")
		})
	}
}

func (s suite) deleteMissing(t *testing.T) {
	b := s.open(t)
	put(t, b, "a", "x")
	got := b.DeleteMany(t.Context(), []blob.Key{"a", "no/dir/b", "a", "a/below"})
	for _, r := range got {
		if r.Outcome == blob.Failed {
			t.Errorf("%q is not settled: %v", r.Key, r.Err)
		}
	}
	wantKeys(t, b, "")
	if got := b.DeleteMany(t.Context(), []blob.Key{"a"}); s.caps.TellsMissing {
		wantOutcomes(t, got, blob.Missing)
	} else {
		wantOutcomes(t, got, blob.Deleted)
	}
}

func (s suite) race(t *testing.T) {
	b := s.open(t)
	const writers = 8
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			errs[i] = b.Put(t.Context(), "new/dir/k", strings.NewReader(strings.Repeat(strconv.Itoa(i), 50_000)))
		})
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner < 0:
			winner = i
		case err == nil:
			t.Errorf("writers %d and %d both won", winner, i)
		default:
			wantClass(t, err, blob.Exist)
		}
	}
	if winner < 0 {
		t.Fatal("nobody won")
	}
	if got := get(t, b, "new/dir/k"); got != strings.Repeat(strconv.Itoa(winner), 50_000) {
		t.Errorf("the bytes are not the winner's")
	}
	wantKeys(t, b, "", "new/dir/k")
}

// big sends a body that is longer than any buffer, from a reader that gives odd pieces.
func (s suite) big(t *testing.T) {
	b := s.open(t)
	const size = 20<<20 + 13
	sent, got := sha256.New(), sha256.New()
	body := io.TeeReader(&oddReader{left: size}, sent)
	if err := b.Put(t.Context(), "big", body); err != nil {
		t.Fatal(err)
	}
	r, info, err := b.Open(t.Context(), "big")
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(got, r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	if n != size || info.Size != size {
		t.Errorf("read %d bytes, told %d, want %d", n, info.Size, size)
	}
	if string(sent.Sum(nil)) != string(got.Sum(nil)) {
		t.Error("other bytes than were sent")
	}
}

func (s suite) brokenBody(t *testing.T) {
	b := s.open(t)
	broken := errors.New("client hung up")
	err := b.Put(t.Context(), "d/k", io.MultiReader(strings.NewReader("half"), failingReader{broken}))
	if !errors.Is(err, broken) {
		t.Errorf("Put = %v, want the reader's error in the chain", err)
	}
	wantKeys(t, b, "")
	put(t, b, "d/k", "whole")
}

func (s suite) cancelled(t *testing.T) {
	b := s.open(t)
	put(t, b, "k", "x")
	cause := errors.New("lease lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for _, r := range b.DeleteMany(ctx, []blob.Key{"k"}) {
		if r.Outcome != blob.Failed || r.Err == nil {
			t.Errorf("delete under a cancelled context: %+v, want it failed", r)
		}
	}
	if err := b.Put(ctx, "new", strings.NewReader("x")); err == nil {
		t.Error("Put under a cancelled context succeeded")
	}
	wantKeys(t, b, "", "k")
}

func wantOutcomes(t *testing.T, got []blob.Result, want ...blob.Outcome) {
	t.Helper()
	outcomes := make([]blob.Outcome, len(got))
	for i, r := range got {
		outcomes[i] = r.Outcome
		if (r.Outcome == blob.Failed) != (r.Err != nil) {
			t.Errorf("%q: outcome %d with error %v", r.Key, r.Outcome, r.Err)
		}
	}
	if diff := cmp.Diff(want, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// oddReader gives left bytes that do not repeat in step with any buffer.
type oddReader struct{ left, at int }

func (r *oddReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), r.left, 4097)
	for i := range n {
		r.at++
		p[i] = byte(r.at * 31 >> 3)
	}
	r.left -= n
	return n, nil
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }
