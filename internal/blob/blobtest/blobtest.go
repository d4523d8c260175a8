// Package blobtest is the conformance suite of blob.Bucket: what every store must do,
// and, by capability, what only some can.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob"
)

// Caps are the abilities in which stores differ.
type Caps struct {
	ByteKeys     bool // keys are bytes: "//", "./" and a trailing slash are kept
	TellsMissing bool // a bulk delete tells missing keys from deleted ones
	ByteOrder    bool // listings are in the byte order of keys
	MaxComponent int  // longest key part between two slashes, 0: no limit
	MaxKey       int  // bytes of the longest key, 0: 1,024
	TextKeys     bool // keys that are no UTF-8 cannot be stored, or not listed: not tested
	PathsOnly    bool // neither ByteKeys nor cleaned: keys that are no clean path are not tested
}

// Run runs the suite. open returns an empty bucket, which is the test's alone.
func Run(t *testing.T, open func(t *testing.T) blob.Bucket, caps Caps) {
	t.Helper()
	s := suite{open: open, caps: caps}
	for _, test := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"create and read back", s.create},
		{"never over an existing object", s.exist},
		{"missing", s.missing},
		{"keys as they are", s.keys},
		{"impossible keys", s.impossible},
		{"list", s.list},
		{"list stops and fails", s.listStops},
		{"delete one to a thousand", s.deleteMany},
		{"delete missing and twice", s.deleteMissing},
		{"concurrent create of one key", s.race},
		{"big body", s.big},
		{"broken body", s.brokenBody},
		{"cancelled context", s.cancelled},
		{"ranges", s.ranges},
		{"multipart", s.multipart},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
}

type suite struct {
	open func(t *testing.T) blob.Bucket
	caps Caps
}

func (s suite) create(t *testing.T) {
	b := s.open(t)
	for name, body := range map[blob.Key]string{"a": "", "dir/b": "bytes", "dir/sub/c": strings.Repeat("x", 100_000)} {
		put(t, b, name, body)
		if got := get(t, b, name); got != body {
			t.Errorf("Open(%q) gave %d bytes, want %d", name, len(got), len(body))
		}
		info, err := b.Stat(t.Context(), name)
		if err != nil || info.Key != name || info.Size != int64(len(body)) {
			t.Errorf("Stat(%q) = %+v, %v", name, info, err)
		}
	}
}

func (s suite) exist(t *testing.T) {
	b := s.open(t)
	put(t, b, "d/k", "old")
	wantClass(t, b.Put(t.Context(), "d/k", strings.NewReader("new, and longer")), blob.Exist)
	if got := get(t, b, "d/k"); got != "old" {
		t.Errorf("after a refused Put: %q, want the old bytes", got)
	}
	wantKeys(t, b, "", "d/k")
}

func (s suite) missing(t *testing.T) {
	b := s.open(t)
	put(t, b, "dir/file", "x")
	for _, key := range []blob.Key{"nothing", "dir", "dir/nothing", "dir/file/below", "no/such/dir"} {
		_, _, err := b.Open(t.Context(), key)
		wantClass(t, err, blob.NotExist)
		_, err = b.Stat(t.Context(), key)
		wantClass(t, err, blob.NotExist)
	}
}

func (s suite) keys(t *testing.T) {
	keys := []blob.Key{
		"k/a#b", "k/a?b=c", "k/100%", "k/%2e%2e", "k/%00", "k/a+b", "k/a b", " lead", "trail ", "k/'q'\"d\"", "k/{a}[b]",
		"k/a&b<c>", "k/a\\b", "k/a*", "k/a:b", "k/ö-日本-🗑", "k/o\u0308", "k/..a", "k/a..", "k/~", "k/a\nb", "-rf",
		longKey(s.caps),
	}
	if !s.caps.TextKeys {
		keys = append(keys, "k/\xff\xfe")
	}
	if s.caps.ByteKeys {
		keys = append(keys, "k//double", "//k", "k/slash/", "k/./dot", "k/../up", "../out")
	}
	for _, key := range keys {
		t.Run(fmt.Sprintf("%.40q", string(key)), func(t *testing.T) {
			t.Parallel()
			b := s.open(t)
			put(t, b, "k/neighbour", "stays")
			put(t, b, key, string(key))
			if got := get(t, b, key); got != string(key) {
				t.Errorf("read back %q", got)
			}
			want := []blob.Key{key, "k/neighbour"}
			wantKeys(t, b, "", want...)
			wantKeys(t, b, key, key)
			wantOutcomes(t, b.DeleteMany(t.Context(), []blob.Key{key}), blob.Deleted)
			wantKeys(t, b, "", "k/neighbour")
		})
	}
	if s.caps.ByteKeys || s.caps.PathsOnly {
		return
	}
	t.Run("cleaned", func(t *testing.T) {
		t.Parallel()
		b := s.open(t)
		put(t, b, "k//x/../y/./z", "1")
		wantKeys(t, b, "", "k/y/z")
		put(t, b, "../../up", "2")
		wantKeys(t, b, "", "k/y/z", "up")
		wantOutcomes(t, b.DeleteMany(t.Context(), []blob.Key{"/k/y//z", "./up"}), blob.Deleted, blob.Deleted)
		wantKeys(t, b, "")
	})
}

// longKey returns a key of the greatest length with parts no longer than the store takes.
func longKey(caps Caps) blob.Key {
	size := caps.MaxKey
	if size <= 0 {
		size = 1024
	}
	key, part := strings.Repeat("l", size), caps.MaxComponent
	if part <= 0 {
		return blob.Key(key)
	}
	raw := []byte(key)
	for i := part / 2; i < len(raw)-1; i += part/2 + 1 {
		raw[i] = '/'
	}
	return blob.Key(raw)
}

func (s suite) impossible(t *testing.T) {
	b := s.open(t)
	put(t, b, "stays", "x")
	keys := []blob.Key{"", "nul\x00byte", blob.Key(strings.Repeat("n", 5000))}
	for _, key := range keys {
		wantClass(t, b.Put(t.Context(), key, strings.NewReader("x")), blob.Invalid)
		_, err := b.Stat(t.Context(), key)
		wantClass(t, err, blob.NotExist)
		_, _, err = b.Open(t.Context(), key)
		wantClass(t, err, blob.NotExist)
		if got := b.DeleteMany(t.Context(), []blob.Key{key})[0]; got.Outcome == blob.Failed {
			t.Errorf("delete of the impossible key %.20q: %v, want it settled", string(key), got.Err)
		}
	}
	wantKeys(t, b, "", "stays")
}

func (s suite) list(t *testing.T) {
	b := s.open(t)
	all := []blob.Key{"t/1", "t/2", "t/sub/3", "t2/4", "u", "t-", "t/sub-4"}
	for _, key := range all {
		put(t, b, key, string(key))
	}
	for _, test := range []struct {
		prefix blob.Key
		want   []blob.Key
	}{
		{"", all},
		{"t", []blob.Key{"t/1", "t/2", "t/sub/3", "t2/4", "t-", "t/sub-4"}},
		{"t/", []blob.Key{"t/1", "t/2", "t/sub/3", "t/sub-4"}},
		{"t/sub", []blob.Key{"t/sub/3", "t/sub-4"}},
		{"t/sub/", []blob.Key{"t/sub/3"}},
		{"t/1", []blob.Key{"t/1"}},
		{"t/1/", nil},
		{"none/", nil},
		{"none/below/", nil},
	} {
		wantKeys(t, b, test.prefix, test.want...)
	}
	first, second := keysOf(t, b, ""), keysOf(t, b, "")
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("two listings differ in order (-first +second):\n%s", diff)
	}
	if s.caps.ByteOrder && !slices.IsSorted(first) {
		t.Errorf("not in byte order: %q", first)
	}
	err := b.List(t.Context(), "", func(info blob.Info) error {
		if info.Size != int64(len(info.Key)) {
			t.Errorf("listed size of %q is %d", info.Key, info.Size)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func (s suite) listStops(t *testing.T) {
	b := s.open(t)
	for i := range 5 {
		put(t, b, blob.Key(fmt.Sprintf("d%d/f", i)), "x")
	}
	mine := errors.New("mine")
	for _, test := range []struct {
		give, want error
	}{{blob.ErrStop, nil}, {mine, mine}} {
		calls := 0
		err := b.List(t.Context(), "", func(blob.Info) error {
			calls++
			if calls == 2 {
				return test.give
			}
			return nil
		})
		if !errors.Is(err, test.want) || calls != 2 {
			t.Errorf("List with fn returning %v: %v after %d calls, want %v after 2", test.give, err, calls, test.want)
		}
	}
}

func put(t *testing.T, b blob.Bucket, key blob.Key, body string) {
	t.Helper()
	if err := b.Put(t.Context(), key, strings.NewReader(body)); err != nil {
		t.Fatalf("Put(%.60q): %v", string(key), err)
	}
}

func get(t *testing.T, b blob.Bucket, key blob.Key) string {
	t.Helper()
	r, info, err := b.Open(t.Context(), key)
	if err != nil {
		t.Fatalf("Open(%.60q): %v", string(key), err)
	}
	var buf bytes.Buffer
	_, err = io.Copy(&buf, r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatalf("read %.60q: %v", string(key), err)
	}
	if info.Size != int64(buf.Len()) {
		t.Errorf("Open(%.60q) told %d bytes and gave %d", string(key), info.Size, buf.Len())
	}
	return buf.String()
}

func keysOf(t *testing.T, b blob.Bucket, prefix blob.Key) []blob.Key {
	t.Helper()
	keys := []blob.Key{}
	err := b.List(context.WithoutCancel(t.Context()), prefix, func(info blob.Info) error {
		keys = append(keys, info.Key)
		return nil
	})
	if err != nil {
		t.Fatalf("List(%.60q): %v", string(prefix), err)
	}
	return keys
}

// wantKeys asserts what is stored under prefix, in any order.
func wantKeys(t *testing.T, b blob.Bucket, prefix blob.Key, want ...blob.Key) {
	t.Helper()
	got := keysOf(t, b, prefix)
	slices.Sort(got)
	want = append([]blob.Key{}, want...)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("List(%.60q) (-want +got):\n%s", string(prefix), diff)
	}
}

func wantClass(t *testing.T, err error, want blob.Class) {
	t.Helper()
	if e, ok := errors.AsType[*blob.Error](err); !ok {
		t.Errorf("got %v, want a *blob.Error of class %s", err, want)
	} else if e.Class != want {
		t.Errorf("got class %s (%v), want %s", e.Class, err, want)
	}
}
