package s3_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/s3"
)

// stub starts a store that answers as it is told and returns a bucket's place in it.
func stub(t *testing.T, answer http.HandlerFunc) s3.Config {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return s3.Config{Bucket: "bucket", Prefix: "root", Endpoint: server.URL, Credentials: keys, Timeout: 30 * time.Second}
}

// after lets the questions pass that are asked when a bucket is opened.
func after(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Has("versioning") || q.Has("object-lock") {
			refuse(w, 403, "AccessDenied")
			return
		}
		answer(w, r)
	}
}

func write(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func refuse(w http.ResponseWriter, status int, code string) {
	write(w, status, "<Error><Code>"+code+"</Code><Message>no</Message></Error>")
}

// wanted are the keys that a bulk delete asks for.
func wanted(t *testing.T, r *http.Request) []string {
	t.Helper()
	var body struct {
		Object []struct{ Key string }
		Quiet  bool
	}
	if err := xml.NewDecoder(r.Body).Decode(&body); err != nil {
		t.Errorf("body of a bulk delete: %v", err)
	}
	if body.Quiet {
		t.Error("a quiet delete proves nothing")
	}
	var names []string
	for _, o := range body.Object {
		names = append(names, o.Key)
	}
	return names
}

func TestBulkDelete(t *testing.T) {
	t.Parallel()
	all := func(names []string) string {
		var b strings.Builder
		for _, name := range names {
			b.WriteString("<Deleted><Key>" + name + "</Key></Deleted>")
		}
		return b.String()
	}
	few := []blob.Key{"a", "b", "c"}
	many := make([]blob.Key, 2*blob.MaxDelete+5)
	for i := range many {
		many[i] = blob.Key(fmt.Sprintf("f%d", i))
	}
	for _, test := range []struct {
		name    string
		keys    []blob.Key
		bulk    func(names []string) string
		sizes   []int    // of the bulk requests
		singles []string // paths of the others
		failed  map[blob.Key]blob.Class
		missing []blob.Key
	}{
		{name: "no request has more than a thousand keys", keys: many, bulk: all, sizes: []int{1000, 1000, 5}},
		{name: "one key is no bulk", keys: []blob.Key{"a b"}, singles: []string{"/bucket/root/a%20b"}},
		{name: "twice the same key is one", keys: []blob.Key{"a", "a"}, singles: []string{"/bucket/root/a"}},
		{
			name: "what XML cannot carry goes alone", keys: []blob.Key{"a", "b", "x\ny", "\xff", "\x01"}, bulk: all,
			sizes: []int{2}, singles: []string{"/bucket/root/x%0Ay", "/bucket/root/%FF", "/bucket/root/%01"},
		},
		{
			name: "every key has its own error", keys: few,
			bulk: func(names []string) string {
				return all(names[:1]) + "<Error><Key>root/b</Key><Code>AccessDenied</Code></Error><Error><Key>root/c</Key><Code>InternalError</Code></Error>"
			},
			sizes: []int{3}, failed: map[blob.Key]blob.Class{"b": blob.Denied, "c": blob.Unavailable},
		},
		{
			name: "a missing key is no failure", keys: few,
			bulk: func(names []string) string {
				return all(names[1:]) + "<Error><Key>root/a</Key><Code>NoSuchKey</Code></Error>"
			},
			sizes: []int{3}, missing: []blob.Key{"a"},
		},
		{
			name: "a key without an answer goes alone", keys: few,
			bulk:  func(names []string) string { return all(names[:2]) + all([]string{"root/C"}) },
			sizes: []int{3}, singles: []string{"/bucket/root/c"},
		},
		{
			name: "an answer without any key is no answer", keys: few,
			bulk:  func([]string) string { return "" },
			sizes: []int{3}, failed: map[blob.Key]blob.Class{"a": blob.NotSupported, "b": blob.NotSupported, "c": blob.NotSupported},
		},
		{
			name: "an answer that cannot be read is none", keys: few,
			bulk:  func([]string) string { return "<Deleted><Key>root/a</Deleted>" },
			sizes: []int{3}, failed: map[blob.Key]blob.Class{"a": blob.NotSupported, "b": blob.NotSupported, "c": blob.NotSupported},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var sizes []int
			var singles []string
			b := open(t, stub(t, after(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if r.Method == http.MethodDelete {
					singles = append(singles, r.URL.EscapedPath())
					w.WriteHeader(http.StatusNoContent)
					return
				}
				names := wanted(t, r)
				sizes = append(sizes, len(names))
				write(w, 200, "<DeleteResult>"+test.bulk(names)+"</DeleteResult>")
			})))
			results := b.DeleteMany(t.Context(), test.keys)
			if diff := cmp.Diff(test.sizes, sizes); diff != "" {
				t.Errorf("sizes of the bulk requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.singles, singles); diff != "" {
				t.Errorf("single requests (-want +got):\n%s", diff)
			}
			for i, r := range results {
				class, fails := test.failed[test.keys[i]]
				want := blob.Deleted
				if slices.Contains(test.missing, test.keys[i]) {
					want = blob.Missing
				}
				if fails {
					want = blob.Failed
				}
				if r.Key != test.keys[i] || r.Outcome != want || (fails && blob.ClassOf(r.Err) != class) {
					t.Fatalf("result %d: %+v, want outcome %d and class %s", i, r, want, class)
				}
			}
		})
	}
}

// The SDK's bodies fail in WriteTo once the answer has begun.
func TestAnswersBeforeTheLastLookAtTheBody(t *testing.T) {
	t.Parallel()
	cfg := stub(t, after(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	b := open(t, cfg)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, cfg.Endpoint, closedBody{strings.NewReader("all of it")})
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = int64(len("all of it"))
	res, err := s3.Sender(b).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil || string(got) != "all of it" {
		t.Errorf("the store got %q, %v", got, err)
	}
}

type closedBody struct{ *strings.Reader }

func (closedBody) WriteTo(io.Writer) (int64, error) { return 0, io.EOF }
func (closedBody) Close() error                     { return nil }

// What was not sent in time is sent by nobody: the pool asks for admission again first.
func TestLateDeletes(t *testing.T) {
	t.Parallel()
	b := open(t, stub(t, after(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a late request: %s %s", r.Method, r.URL)
	})))
	s3.SetLateness(b, -1)
	for _, r := range b.DeleteMany(t.Context(), []blob.Key{"a", "b", "c\n"}) {
		if r.Outcome != blob.Failed || blob.ClassOf(r.Err) != blob.Other {
			t.Errorf("%+v, want it failed, to be tried again", r)
		}
	}
}

func TestDeletesNameTheirLease(t *testing.T) {
	t.Parallel()
	leases := make(chan string, 2)
	b := open(t, stub(t, after(func(w http.ResponseWriter, r *http.Request) {
		leases <- r.Header.Get(s3.LeaseHeader)
		w.WriteHeader(http.StatusNoContent)
	})))
	ctx := blob.WithLease(t.Context(), "host/1 purge-7 3")
	b.DeleteMany(ctx, []blob.Key{"a", "b"})
	b.DeleteMany(ctx, []blob.Key{"a"})
	for range 2 {
		if got := <-leases; got != "host/1 purge-7 3" {
			t.Errorf("lease %q", got)
		}
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	const none = blob.Class(99) // the operation is not asked
	for _, test := range []struct {
		status              int
		code                string
		open, put, one, two blob.Class
	}{
		{404, "NoSuchKey", blob.NotExist, none, none, none},
		{404, "NoSuchBucket", blob.Unavailable, blob.Unavailable, blob.Unavailable, blob.Unavailable},
		{404, "", blob.Other, blob.Other, blob.Other, blob.Other}, // a proxy's page proves nothing
		{412, "PreconditionFailed", none, blob.Exist, none, none},
		{409, "ConditionalRequestConflict", none, blob.Exist, none, none},
		{412, "", none, blob.Exist, none, none},
		{403, "AccessDenied", blob.Denied, blob.Denied, blob.Denied, blob.Denied},
		{403, "SignatureDoesNotMatch", blob.Denied, blob.Denied, blob.Denied, blob.Denied},
		{403, "InvalidAccessKeyId", blob.Unavailable, blob.Unavailable, blob.Unavailable, blob.Unavailable},
		{400, "ExpiredToken", blob.Unavailable, blob.Unavailable, blob.Unavailable, blob.Unavailable},
		{403, "RequestTimeTooSkewed", blob.Unavailable, blob.Unavailable, blob.Unavailable, blob.Unavailable},
		{400, "KeyTooLongError", blob.NotExist, blob.Invalid, blob.Invalid, none},
		{503, "SlowDown", blob.Throttled, blob.Throttled, blob.Throttled, blob.Throttled},
		{503, "", blob.Throttled, blob.Throttled, blob.Throttled, blob.Throttled},
		{429, "", blob.Throttled, blob.Throttled, blob.Throttled, blob.Throttled},
		{500, "InternalError", blob.Unavailable, blob.Unavailable, blob.Unavailable, blob.Unavailable},
		{502, "", blob.Unavailable, blob.Unavailable, blob.Unavailable, blob.Unavailable},
		{301, "PermanentRedirect", blob.Other, blob.Other, blob.Other, blob.Other},
		{501, "NotImplemented", blob.NotSupported, blob.NotSupported, blob.NotSupported, blob.NotSupported},
		{400, "MissingContentMD5", none, none, none, blob.NotSupported},
		{400, "MalformedXML", none, none, none, blob.NotSupported},
	} {
		t.Run(fmt.Sprint(test.status, test.code), func(t *testing.T) {
			t.Parallel()
			requests := make(chan string, 100)
			b := open(t, stub(t, after(func(w http.ResponseWriter, r *http.Request) {
				requests <- r.Method
				if test.code == "" {
					write(w, test.status, "<html>nothing to see</html>")
					return
				}
				refuse(w, test.status, test.code)
			})))
			check := func(op string, err error, want blob.Class, most int) {
				t.Helper()
				n := len(requests)
				for range n {
					<-requests
				}
				if want == none {
					return
				}
				if got := blob.ClassOf(err); err == nil || got != want {
					t.Errorf("%s: class %s (%v), want %s", op, got, err, want)
				}
				if n > most {
					t.Errorf("%s: %d requests, want at most %d", op, n, most)
				}
			}
			_, _, err := b.Open(t.Context(), "k")
			check("open", err, test.open, 2)
			check("put", b.Put(t.Context(), "k", strings.NewReader("x")), test.put, 1)
			check("delete one", b.DeleteMany(t.Context(), []blob.Key{"k"})[0].Err, test.one, 1)
			check("delete two", b.DeleteMany(t.Context(), []blob.Key{"k", "l"})[1].Err, test.two, 1)
			if test.code == "NoSuchKey" {
				if got := b.DeleteMany(t.Context(), []blob.Key{"k"})[0]; got.Outcome != blob.Missing {
					t.Errorf("delete of a key that the store knows to be missing: %+v", got)
				}
			}
		})
	}
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then is the client's going away noticed
		<-r.Context().Done()
	}
	gone := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, answer := range map[string]http.HandlerFunc{"silence": hang, "connection cut": gone} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := stub(t, after(answer))
			cfg.Timeout = 200 * time.Millisecond
			b := open(t, cfg)
			_, statErr := b.Stat(t.Context(), "k")
			_, _, openErr := b.Open(t.Context(), "k")
			for op, err := range map[string]error{
				"stat": statErr, "open": openErr,
				"list":   b.List(t.Context(), "", func(blob.Info) error { return nil }),
				"delete": b.DeleteMany(t.Context(), []blob.Key{"k", "l"})[0].Err,
			} {
				if blob.ClassOf(err) != blob.Unavailable || strings.Contains(err.Error(), secret) {
					t.Errorf("%s: %v, want it unavailable", op, err)
				}
			}
		})
	}
}

func TestStreamEndsEarly(t *testing.T) {
	t.Parallel()
	for name, rest := range map[string]func(r *http.Request){
		"silence":        func(r *http.Request) { <-r.Context().Done() },
		"connection cut": func(*http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := stub(t, after(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "100")
				_, _ = io.WriteString(w, "half")
				_ = http.NewResponseController(w).Flush()
				rest(r)
			}))
			cfg.Timeout = 3 * time.Second // of silence: half must come before it is over
			body, _, err := open(t, cfg).Open(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(body)
			if string(got) != "half" || blob.ClassOf(err) != blob.Unavailable {
				t.Errorf("read %q, %v, want half and unavailable", got, err)
			}
			if err := body.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Credentials that cannot be had are the store as a whole, whatever their service said.
func TestCredentials(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"none":   errors.New("no instance role"),
		"denied": &smithy.OperationError{ServiceID: "STS", OperationName: "AssumeRole", Err: &smithy.GenericAPIError{Code: "AccessDenied"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := stub(t, func(http.ResponseWriter, *http.Request) { t.Error("a request without credentials") })
			cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, cause })
			_, err := open(t, cfg).Stat(t.Context(), "k")
			if blob.ClassOf(err) != blob.Unavailable {
				t.Errorf("got %v, want unavailable", err)
			}
		})
	}
}

// A listing may come URL-encoded: that is how every key comes back as it is.
func TestListDecodes(t *testing.T) {
	t.Parallel()
	pages := []string{
		"<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><NextContinuationToken>2</NextContinuationToken>" +
			"<Contents><Key>root/a+b%2Bc%20d</Key><Size>3</Size></Contents>",
		"<EncodingType>url</EncodingType><Contents><Key>root/%FF%01%0A%25</Key><Size>4</Size></Contents>",
	}
	b := open(t, stub(t, after(func(w http.ResponseWriter, r *http.Request) {
		page := 0
		if r.URL.Query().Get("continuation-token") == "2" {
			page = 1
		}
		if got := r.URL.Query().Get("prefix"); got != "root/ä" && got != "root/" {
			t.Errorf("prefix %q", got)
		}
		write(w, 200, "<ListBucketResult>"+pages[page]+"</ListBucketResult>")
	})))
	var got []blob.Key
	collect := func(info blob.Info) error {
		got = append(got, info.Key)
		return nil
	}
	if err := b.List(t.Context(), "", collect); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]blob.Key{"a b+c d", "\xff\x01\n%"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := b.List(t.Context(), "ä", collect); err == nil || len(got) != 2 {
		t.Errorf("a listing with keys of others: %v, %q", err, got)
	}
}

func TestListEnds(t *testing.T) {
	t.Parallel()
	b := open(t, stub(t, after(func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>same</NextContinuationToken></ListBucketResult>")
	})))
	if err := b.List(t.Context(), "", func(blob.Info) error { return nil }); err == nil {
		t.Error("a store that gives the same page for ever is no error")
	}
}

// A long body is conditional from the begin to the end, and leaves no parts behind.
func TestPutInParts(t *testing.T) {
	t.Parallel()
	const long = 40 << 20
	broken := errors.New("client hung up")
	for _, test := range []struct {
		name   string
		body   io.Reader
		taken  bool
		finish string // error code of the completion
		want   blob.Class
		steps  []string
	}{
		{"taken", zeros(long), true, "", blob.Exist, []string{"HEAD"}},
		{"taken meanwhile", zeros(long), false, "PreconditionFailed", blob.Exist, []string{"HEAD", "begin", "part", "part", "part", "finish", "abort"}},
		{"broken body", io.MultiReader(zeros(20<<20), failing{broken}), false, "", blob.Other, []string{"HEAD", "begin", "part", "abort"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var steps []string
			b := open(t, stub(t, after(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				_, _ = io.Copy(io.Discard, r.Body)
				q := r.URL.Query()
				switch {
				case r.Method == http.MethodHead:
					steps = append(steps, "HEAD")
					if !test.taken {
						w.WriteHeader(http.StatusNotFound)
					}
				case q.Has("uploads"):
					steps = append(steps, "begin")
					write(w, 200, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
				case r.Method == http.MethodPut && q.Get("uploadId") == "u":
					steps = append(steps, "part")
					w.Header().Set("ETag", `"e"`)
				case r.Method == http.MethodDelete && q.Get("uploadId") == "u":
					steps = append(steps, "abort")
					w.WriteHeader(http.StatusNoContent)
				default:
					steps = append(steps, "finish")
					if r.Header.Get("If-None-Match") != "*" {
						t.Error("the completion has no condition")
					}
					refuse(w, 412, test.finish)
				}
			})))
			err := b.Put(t.Context(), "k", test.body)
			if err == nil || blob.ClassOf(err) != test.want {
				t.Errorf("got %v, want class %s", err, test.want)
			}
			if diff := cmp.Diff(test.steps, steps); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

func zeros(n int64) io.Reader { return io.LimitReader(zero{}, n) }

type zero struct{}

func (zero) Read(p []byte) (int, error) { return len(p), nil }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
