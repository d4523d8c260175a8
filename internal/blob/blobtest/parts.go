package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
)

func (s suite) ranges(t *testing.T) {
	b := s.open(t)
	ranger, ok := b.(blob.Ranger)
	if !ok {
		t.Skip("no Ranger")
	}
	const body = "0123456789"
	put(t, b, "k", body)
	for _, test := range []struct {
		name           string
		offset, length int64
		want           string
	}{
		{"first", 0, 1, "0"},
		{"inside", 3, 4, "3456"},
		{"last", 9, 1, "9"},
		{"beyond the end", 8, 100, "89"},
		{"whole", 0, 10, body},
	} {
		r, err := ranger.OpenRange(t.Context(), "k", test.offset, test.length)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		got, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || string(got) != test.want {
			t.Errorf("%s: read %q, %v, want %q", test.name, got, err, test.want)
		}
	}
	_, err := ranger.OpenRange(t.Context(), "none", 0, 1)
	wantClass(t, err, blob.NotExist)
}

func (s suite) multipart(t *testing.T) {
	b := s.open(t)
	parts, ok := b.(blob.Multiparter)
	if !ok {
		return // uploads in parts are an offer that a bucket need not make
	}
	ctx := t.Context()
	big, other := bytes.Repeat([]byte("b"), int(parts.MinPart())), bytes.Repeat([]byte("o"), int(parts.MinPart()))
	send := func(id string, number int, body []byte) blob.PartRef {
		t.Helper()
		// No Seeker: parts are streamed.
		tag, err := parts.PutPart(ctx, "d/k", id, number, struct{ io.Reader }{bytes.NewReader(body)}, int64(len(body)))
		if err != nil {
			t.Fatalf("part %d: %v", number, err)
		}
		return blob.PartRef{Number: number, Tag: tag}
	}
	id, err := parts.CreateMultipart(ctx, "d/k")
	if err != nil {
		t.Fatal(err)
	}
	last := send(id, 3, []byte("end"))
	send(id, 1, other)
	first := send(id, 1, big) // replaces the one before
	wantKeys(t, b, "")
	if _, err := parts.PutPart(ctx, "d/k", id, 2, strings.NewReader("short"), 9); err == nil {
		t.Error("a part that ends early was taken")
	}
	broken := errors.New("client hung up")
	_, err = parts.PutPart(ctx, "d/k", id, 2, io.MultiReader(strings.NewReader("half"), failingReader{broken}), 9)
	if err == nil {
		t.Error("a part whose body broke was taken")
	}
	if err := parts.CompleteMultipart(ctx, "d/k", id, []blob.PartRef{first, last}); err != nil {
		t.Fatal(err)
	}
	if got := get(t, b, "d/k"); got != string(big)+"end" {
		t.Errorf("the object has %d bytes, want %d", len(got), len(big)+3)
	}
	// Some stores answer the same again.
	if err := parts.CompleteMultipart(ctx, "d/k", id, []blob.PartRef{first, last}); err != nil && blob.ClassOf(err) != blob.Exist {
		wantClass(t, err, blob.NotExist)
	}

	for range 2 { // two uploads of one key, and both go
		if id, err = parts.CreateMultipart(ctx, "d/k2"); err != nil {
			t.Fatal(err)
		}
	}
	keep, err := parts.CreateMultipart(ctx, "d/k22")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := parts.AbortMultipart(ctx, "d/k2"); err != nil {
			t.Fatal(err)
		}
	}
	_, err = parts.PutPart(ctx, "d/k2", id, 1, strings.NewReader("x"), 1)
	wantClass(t, err, blob.NotExist)
	if _, err = parts.PutPart(ctx, "d/k22", keep, 1, strings.NewReader("x"), 1); err != nil {
		t.Errorf("the neighbour's upload was aborted too: %v", err)
	}
	if err := parts.AbortMultipart(context.WithoutCancel(ctx), "d/k22"); err != nil {
		t.Error(err)
	}
	wantKeys(t, b, "", "d/k")
}
