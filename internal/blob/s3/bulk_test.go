package s3_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/s3"
)

// exchange is a store of one request: it keeps what was asked and answers as it is told.
type exchange struct {
	asked  *http.Request
	body   []byte
	answer []byte
}

func (e *exchange) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	e.asked, e.body = r, body
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/xml"}},
		Body: io.NopCloser(bytes.NewReader(e.answer)), Request: r,
	}, err
}

// bySDK deletes with the SDK alone.
func (e *exchange) bySDK(ctx context.Context, endpoint string, names ...string) (*awss3.DeleteObjectsOutput, error) {
	client := awss3.New(awss3.Options{
		BaseEndpoint: &endpoint, UsePathStyle: true, Region: "us-east-1", Credentials: keys, HTTPClient: e, Retryer: aws.NopRetryer{},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
	})
	objects := make([]types.ObjectIdentifier, len(names))
	for i := range names {
		objects[i].Key = &names[i]
	}
	return client.DeleteObjects(ctx, &awss3.DeleteObjectsInput{
		Bucket: aws.String("bucket"), Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(false)},
	})
}

var plainNames = []string{
	"t/data/day=01/00000-4c1f8f2e.parquet", "&", "<", ">", `"`, "'", "a&amp;b", "&#38;", "]]>", "<!-- -->", "<![CDATA[x]]>",
	" leading", "trailing ", "  ", "a%2Fb+c", "ö/日本/😀", "\u2028", "x\u2028y\u2029\u2028", "\u00a0", "\ufffd", "\U0010ffff", "\u00e2\u00a8", "~", "\\",
	"a/", "//", "..", "</Key></Object>", "key&\u2028<", strings.Repeat("&", 1000),
}

// The request is byte for byte that of the SDK, with its headers, whatever the names.
func TestBulkRequestIsTheSDKs(t *testing.T) {
	t.Parallel()
	type request struct {
		Method, URI string
		Header      http.Header
		Body        string
	}
	asked := make(chan request, 1)
	cfg := stub(t, after(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- request{r.Method, r.URL.RequestURI(), r.Header, string(body)}
		write(w, 200, "<DeleteResult></DeleteResult>")
	}))
	for _, root := range []string{"root", "r o&o<t>'\"ö\u2028"} {
		cfg.Prefix = root
		var wantKeys []blob.Key
		var names []string
		for _, name := range plainNames {
			wantKeys, names = append(wantKeys, blob.Key(name)), append(names, root+"/"+name)
		}
		e := &exchange{answer: []byte("<DeleteResult></DeleteResult>")}
		if _, err := e.bySDK(t.Context(), cfg.Endpoint, names...); err != nil {
			t.Fatal(err)
		}
		open(t, cfg).DeleteMany(t.Context(), wantKeys) // nothing is named: one request
		got := <-asked
		want := request{e.asked.Method, e.asked.URL.RequestURI(), e.asked.Header, string(e.body)}
		for _, name := range []string{"X-Amz-Content-Sha256", "X-Amz-Checksum-Crc32", "Content-Type"} {
			if want.Header.Get(name) == "" {
				t.Errorf("the SDK sends no %s: %v", name, want.Header)
			}
			if got, want := got.Header.Values(name), want.Header.Values(name); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(request{}, "Header")); diff != "" {
			t.Errorf("root %q (-want +got):\n%s", root, diff)
		}
		if auth := got.Header.Get("Authorization"); !strings.Contains(auth, "x-amz-content-sha256") || !strings.Contains(auth, "Signature=") {
			t.Errorf("it is signed with %q", auth)
		}
	}
}

func TestDeleteBodyIsTheSDKs(t *testing.T) {
	t.Parallel()
	name := rapid.OneOf(rapid.SampledFrom(plainNames), rapid.StringN(1, 40, -1)).Filter(s3.Plain)
	rapid.Check(t, func(t *rapid.T) {
		root := rapid.SampledFrom([]string{"", "root/", "a&b/", "ö /"}).Draw(t, "root")
		of := rapid.SliceOfN(name, 1, 5).Draw(t, "names")
		var names []string
		var below []blob.Key
		for _, n := range of {
			names, below = append(names, root+n), append(below, blob.Key(n))
		}
		e := &exchange{answer: []byte("<DeleteResult></DeleteResult>")}
		if _, err := e.bySDK(context.Background(), "http://store", names...); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(e.body), string(s3.DeleteBody(root, below))); diff != "" {
			t.Fatalf("(-SDK +ours):\n%s", diff)
		}
	})
}

// sameAsSDK fails when an answer is read without the SDK, and otherwise than by it.
func sameAsSDK(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, raw []byte,
) (read bool) {
	t.Helper()
	gone, refused, ok := s3.ReadAnswer(raw)
	if !ok {
		return false
	}
	out, err := (&exchange{answer: raw}).bySDK(context.Background(), "http://store", "k")
	if err != nil {
		t.Fatalf("%q is read as %q, %v, and the SDK fails: %v", raw, gone, refused, err)
	}
	var want []string
	for _, d := range out.Deleted {
		want = append(want, aws.ToString(d.Key))
	}
	if diff := cmp.Diff(want, gone); diff != "" {
		t.Fatalf("%q: deleted (-SDK +ours):\n%s", raw, diff)
	}
	if diff := cmp.Diff(out.Errors, refused, cmpopts.IgnoreUnexported(types.Error{}), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%q: errors (-SDK +ours):\n%s", raw, diff)
	}
	return true
}

// answers by whether the SDK is spared.
var answers = map[string]struct {
	raw  string
	fast bool
}{
	"AWS": {`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Deleted><Key>a b/c=1</Key></Deleted><Deleted><Key>d</Key></Deleted>` +
		`<Error><Key>e</Key><Code>AccessDenied</Code><Message>Access Denied</Message></Error></DeleteResult>`, true},
	"with versions": {`<DeleteResult><Deleted><Key>a</Key><VersionId>v</VersionId><DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>w</DeleteMarkerVersionId></Deleted>` +
		`<Error><Key>b</Key><VersionId>v</VersionId><Code>c</Code></Error></DeleteResult>`, true},
	"marker first":          {`<DeleteResult><Deleted><DeleteMarker>false</DeleteMarker><Key>a</Key></Deleted></DeleteResult>`, true},
	"indented":              {"<DeleteResult>\r\n\t<Deleted>\n <Key>a</Key>\n</Deleted>\n<Error>\n<Key>b</Key> <Code>c</Code>\n</Error>\n</DeleteResult>\n", true},
	"nothing":               {`<DeleteResult></DeleteResult>`, true},
	"Unicode":               {"<DeleteResult><Deleted><Key>ö/日本/😀\u2028</Key></Deleted></DeleteResult>", true},
	"spaces of a key":       {"<DeleteResult><Deleted><Key> a </Key></Deleted></DeleteResult>", true},
	"quotes":                {`<DeleteResult><Deleted><Key>"a" 'b'</Key></Deleted></DeleteResult>`, true},
	"an empty key":          {`<DeleteResult><Deleted><Key></Key></Deleted></DeleteResult>`, true},
	"empty message":         {`<DeleteResult><Error><Key>a</Key><Code>c</Code><Message></Message></Error></DeleteResult>`, true},
	"an error of nothing":   {`<DeleteResult><Error></Error></DeleteResult>`, true},
	"references":            {`<DeleteResult><Deleted><Key>a&amp;b</Key></Deleted></DeleteResult>`, false},
	"references by Unicode": {`<DeleteResult><Deleted><Key>ö&#38;b</Key></Deleted></DeleteResult>`, false},
	"line end in a key":     {"<DeleteResult><Deleted><Key>a\r\nb</Key></Deleted></DeleteResult>", false},
	"control":               {"<DeleteResult><Deleted><Key>a\x01b</Key></Deleted></DeleteResult>", false},
	"no UTF-8":              {"<DeleteResult><Deleted><Key>a\xff</Key></Deleted></DeleteResult>", false},
	"no character":          {"<DeleteResult><Deleted><Key>a\uffff</Key></Deleted></DeleteResult>", false},
	"CDATA":                 {`<DeleteResult><Deleted><Key><![CDATA[a]]></Key></Deleted></DeleteResult>`, false},
	"end of CDATA":          {`<DeleteResult><Deleted><Key>a]]></Key></Deleted></DeleteResult>`, false},
	"comment":               {`<DeleteResult><!-- x --><Deleted><Key>a</Key></Deleted></DeleteResult>`, false},
	"comment in a key":      {`<DeleteResult><Deleted><Key>a<!-- x --></Key></Deleted></DeleteResult>`, false},
	"attribute":             {`<DeleteResult><Deleted x="y"><Key>a</Key></Deleted></DeleteResult>`, false},
	"prefix":                {`<x:DeleteResult xmlns:x="u"><x:Deleted><x:Key>a</x:Key></x:Deleted></x:DeleteResult>`, false},
	"two keys":              {`<DeleteResult><Deleted><Key>a</Key><Key>b</Key></Deleted></DeleteResult>`, false},
	"no key":                {`<DeleteResult><Deleted><VersionId>v</VersionId></Deleted></DeleteResult>`, false},
	"a key empty at once":   {`<DeleteResult><Deleted><Key/></Deleted></DeleteResult>`, false},
	"nested":                {`<DeleteResult><Deleted><Key>a<Key>b</Key></Key></Deleted></DeleteResult>`, false},
	"unknown":               {`<DeleteResult><Deleted><Key>a</Key><Size>1</Size></Deleted></DeleteResult>`, false},
	"lower case":            {`<DeleteResult><deleted><key>a</key></deleted></DeleteResult>`, false},
	"another root":          {`<Result><Deleted><Key>a</Key></Deleted></Result>`, false},
	"error as a whole":      {`<Error><Code>InternalError</Code></Error>`, false},
	"cut":                   {`<DeleteResult><Deleted><Key>a</Key></Deleted>`, false},
	"cut in a key":          {`<DeleteResult><Deleted><Key>a`, false},
	"more behind":           {`<DeleteResult><Deleted><Key>a</Key></Deleted></DeleteResult><x>`, false},
	"a marker of nonsense":  {`<DeleteResult><Deleted><Key>a</Key><DeleteMarker>x</DeleteMarker></Deleted></DeleteResult>`, false},
	"byte order mark":       {"\ufeff<DeleteResult></DeleteResult>", false},
	"another encoding":      {`<?xml version="1.0" encoding="latin1"?><DeleteResult></DeleteResult>`, false},
	"empty":                 {"", false},
}

func TestAnswersAreReadAsBySDK(t *testing.T) {
	t.Parallel()
	for name, tt := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if read := sameAsSDK(t, []byte(tt.raw)); read != tt.fast {
				t.Errorf("read without the SDK: %t, want %t", read, tt.fast)
			}
		})
	}
}

func TestPiecesOfAnswersAreReadAsBySDK(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{
		"<DeleteResult>", "</DeleteResult>", "<Deleted>", "</Deleted>", "<Key>", "</Key>", "<Error>", "</Error>", "<Code>", "</Code>", "<Message>", "</Message>",
		"<VersionId>", "</VersionId>", "<DeleteMarker>true</DeleteMarker>", "<Deleted><Key>a</Key></Deleted>", "<Error><Key>a</Key><Code>b</Code></Error>",
		"a", " ", "\n", "&amp;", "ö", "\xff", ">", "]]>", "<!---->", "<x/>", "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
	})
	rapid.Check(t, func(t *rapid.T) {
		inner := strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), "")
		if rapid.Bool().Draw(t, "inside") {
			inner = "<DeleteResult>" + inner + "</DeleteResult>"
		}
		sameAsSDK(t, []byte(inner))
	})
}

func FuzzReadAnswer(f *testing.F) {
	for _, tt := range answers {
		f.Add([]byte(tt.raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sameAsSDK(t, raw) })
}

// What the SDK has to read ends as it should, too.
func TestUnusualAnswers(t *testing.T) {
	t.Parallel()
	const ab = "<Deleted><Key>root/a&amp;b</Key></Deleted>"
	const c = "<Deleted><Key>root/c</Key></Deleted>"
	const no = blob.Class(99)
	for name, tt := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   blob.Class // of the failure; no: all are gone
	}{
		"references": {func(w http.ResponseWriter) { write(w, 200, "<DeleteResult>"+ab+c+"</DeleteResult>") }, no},
		"long": {func(w http.ResponseWriter) {
			write(w, 200, "<DeleteResult>"+ab+strings.Repeat(" ", 5<<20)+c+"</DeleteResult>")
		}, no},
		"an error as a whole": {func(w http.ResponseWriter) {
			write(w, 200, "<Error><Code>SlowDown</Code></Error>")
		}, blob.Throttled},
		"cut on the way": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			write(w, 200, "<DeleteResult>"+ab+c)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, blob.Unavailable},
		"cut before": {func(w http.ResponseWriter) { write(w, 200, "<DeleteResult>"+ab+c) }, blob.NotSupported},
		"empty":      {func(w http.ResponseWriter) { w.WriteHeader(200) }, blob.NotSupported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t, stub(t, after(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				tt.answer(w)
			})))
			for _, r := range b.DeleteMany(t.Context(), []blob.Key{"a&b", "c"}) {
				if gone := r.Outcome == blob.Deleted; gone != (tt.want == no) || (!gone && blob.ClassOf(r.Err) != tt.want) {
					t.Errorf("%+v, want class %d", r, tt.want)
				}
			}
		})
	}
}
