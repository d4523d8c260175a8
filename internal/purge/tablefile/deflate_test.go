package tablefile_test

import (
	"bytes"
	"compress/flate"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/lethe-project/lethe/internal/purge/tablefile"
)

func deflated(tb testing.TB, text string) []byte {
	tb.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.DefaultCompression)
	if err != nil {
		tb.Fatal(err)
	}
	_, _ = w.Write([]byte(text))
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// One decompressor serves all blocks of a file, broken ones and bombs in between.
func TestInflate(t *testing.T) {
	t.Parallel()
	inflate := tablefile.Inflate()
	long := strings.Repeat("0123456789", 10_000)
	for i, step := range []struct {
		block []byte
		limit int64
		want  string // empty: refused
	}{
		{deflated(t, "first"), 5, "first"},
		{deflated(t, long), int64(len(long)), long},
		{deflated(t, long), int64(len(long)) - 1, ""},
		{deflated(t, "second"), 100, "second"},
		{deflated(t, long)[:20], 1 << 20, ""},
		{[]byte("\xff\xff"), 100, ""},
		{deflated(t, "third"), 100, "third"},
	} {
		got, err := inflate(step.block, step.limit)
		if (err != nil) != (step.want == "") || string(got) != step.want {
			t.Errorf("step %d: %d bytes, %v, want %d", i, len(got), err, len(step.want))
		}
	}
}

// What was read of a block outlives it.
func TestPathsOfManyBlocks(t *testing.T) {
	t.Parallel()
	schema, err := avro.Parse(`{"type":"record","name":"e","fields":[{"name":"data_file","type":{"type":"record","name":"d","fields":[{"name":"file_path","type":"string"}]}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, codec := range []ocf.Codec{ocf.DeflateCodec(flate.BestSpeed), ocf.SnappyCodec()} {
		var body bytes.Buffer
		w, err := ocf.NewWriter(&body, schema, ocf.WithCodec(codec), ocf.WithBlockCount(7))
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for i := range 1000 {
			want = append(want, fmt.Sprintf("s3://b/t/%s/%d", strings.Repeat("x", i%90), i))
			if err := w.Encode(object{"data_file": object{"file_path": want[i]}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		err = tablefile.ReadManifest(&body, tablefile.ManifestFile{Files: -1}, func(e tablefile.Entry) error {
			got = append(got, e.Path)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", codec.Name(), diff)
		}
	}
}
