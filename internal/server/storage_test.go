package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/lethe-project/lethe/internal/server"
)

func TestS3SettingsRefused(t *testing.T) {
	t.Parallel()
	const secret = "geheim"
	for _, tt := range []struct{ name, storage, want string }{
		{"credentials as user", "s3://AKIA:geheim@bucket/x", "default chain"},
		{"credentials in the endpoint", "s3://bucket/x?endpoint=http://AKIA:geheim@host", "default chain"},
		{"credentials as parameters", "s3://bucket/x?secret-key=geheim", "default chain"},
		{"no bucket", "s3:///geheim", "bucket"},
		{"short bucket", "s3://ab/geheim", "bucket"},
		{"bucket with a port", "s3://bucket:80/geheim", "bucket"},
		{"endpoint without scheme", "s3://bucket?endpoint=geheim:9000", "endpoint"},
		{"endpoint with a query", "s3://bucket?endpoint=http://h?geheim", "endpoint"},
		{"region twice", "s3://bucket?region=a&region=geheim", "region 2 times"},
		{"path style", "s3://bucket?path-style=geheim", "path-style"},
		{"broken parameters", "s3://bucket?region=%zzgeheim", "percent-encode"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, arg := range []string{"--storage=", "--warehouse-allowed-locations="} {
				_, err := load(t, nil, arg+tt.storage)
				switch {
				case err == nil:
					t.Errorf("%s accepted", arg)
				case !strings.Contains(err.Error(), tt.want):
					t.Errorf("message lacks %q:\n%v", tt.want, err)
				case strings.Contains(err.Error(), secret):
					t.Errorf("message shows %q:\n%v", secret, err)
				}
			}
		})
	}
}

// A store that is away, or does not take the server's key, keeps nobody from starting a
// server; the log says so, without what is secret, and a create changes nothing.
func TestStoreThatIsOfNoUse(t *testing.T) {
	const secret = "geheim-geheim"
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>")
	}))
	t.Cleanup(refusing.Close)
	for name, endpoint := range map[string]string{"down": down.URL, "a wrong secret": refusing.URL} {
		t.Run(name, func(t *testing.T) {
			r := start(t, config(t, t.TempDir(), nil, "--storage=s3://bucket/x?endpoint="+endpoint, "--drive-storage="+t.TempDir()))
			if got := strings.Count(r.log.String(), "object store is not usable now"); got != 1 {
				t.Errorf("said %d times, want once", got)
			}
			r.want(200, "POST", space, `{"namespace":["n"]}`)
			got := r.do("POST", space+"/n/tables", create)
			if got.status < 400 || !strings.Contains(got.body, `"error"`) {
				t.Errorf("a create without a store: %d %s", got.status, got.body)
			}
			r.want(404, "GET", space+"/n/tables/t", "")
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			if strings.Contains(r.log.String(), secret) {
				t.Error("the log shows the secret")
			}
		})
	}
}

func TestS3SettingsAccepted(t *testing.T) {
	t.Parallel()
	for _, storage := range []string{
		"s3://bucket", "s3a://bucket/", "S3N://my_Bucket.1/a/b%20c#d", "s3://bucket/x?region=eu-west-1",
		"s3://bucket/x?endpoint=https://minio:9000/&path-style=false&region=",
	} {
		args := []string{"--storage=" + storage}
		if whole := strings.Count(strings.TrimSuffix(storage, "/"), "/") == 2; whole {
			if _, err := load(t, nil, args...); err == nil || !strings.Contains(err.Error(), "drive-storage") {
				t.Errorf("%s leaves no place for the drive: %v", storage, err)
			}
			args = append(args, "--drive-storage=s3://drives/x")
		}
		if _, err := load(t, nil, args...); err != nil {
			t.Errorf("%s: %v", storage, err)
		}
	}
}

func TestDrivePlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"of nothing", nil, "file://" + dir + "/data/drive"},
		{"beside a directory", []string{"--storage=" + dir + "/lake"}, "file://" + dir + "/lake-drive"},
		{"beside a prefix", []string{"--storage=s3://lake/tables/?region=eu-west-1"}, "s3://lake/tables-drive"},
		{"as it is named", []string{"--storage=s3://lake", "--drive-storage=s3a://drives/all"}, "s3://drives/all"},
		{"a directory", []string{"--drive-storage=" + dir + "/files"}, "file://" + dir + "/files"},
	} {
		s, err := load(t, nil, append([]string{"--data=" + dir + "/data"}, c.args...)...)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := server.DrivePlace(s); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	for _, overlap := range []string{dir + "/lake", dir + "/lake/sub", dir} {
		if _, err := load(t, nil, "--storage="+dir+"/lake", "--drive-storage="+overlap); err == nil {
			t.Errorf("drives at %s, tables at %s/lake: accepted", overlap, dir)
		}
	}
}

// A server over S3 tells clients how to reach the files, and nothing else; a purge there
// leaves nothing and says what it cannot remove.
func TestServesS3(t *testing.T) {
	const secret = "geheim-geheim"
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	backend := s3mem.New()
	for _, bucket := range []string{"tables", "shared"} {
		if err := backend.CreateBucket(bucket); err != nil {
			t.Fatal(err)
		}
	}
	if err := backend.SetVersioningConfiguration("shared", gofakes3.VersioningConfiguration{Status: gofakes3.VersioningEnabled}); err != nil {
		t.Fatal(err)
	}
	store := httptest.NewServer(gofakes3.New(backend, gofakes3.WithTimeSkewLimit(0)).Server())
	t.Cleanup(store.Close)
	r := start(t, config(t, t.TempDir(), nil,
		"--storage=s3a://tables/root?region=eu-test-1&endpoint="+store.URL, "--warehouse-allowed-locations=s3://shared/x"))
	if r.started.Storage != "s3://tables/root" {
		t.Errorf("storage %q", r.started.Storage)
	}
	want := map[string]string{"s3.endpoint": store.URL, "s3.path-style-access": "true", "client.region": "eu-test-1"}
	var answer struct{ Defaults, Config map[string]string }
	decode(t, r.want(200, "GET", "/iceberg/v1/config", ""), &answer)
	if diff := cmp.Diff(want, answer.Defaults); diff != "" {
		t.Errorf("defaults of config (-want +got):\n%s", diff)
	}
	for _, tt := range []struct{ bucket, location, notes string }{
		{"tables", "", ""},
		{"shared", `,"location":"s3n://shared/x/t"`, "keeps versions"},
	} {
		r.do("POST", space, `{"namespace":["n"]}`)
		decode(t, r.want(200, "POST", space+"/n/tables", strings.TrimSuffix(create, "}")+tt.location+"}"), &answer)
		if diff := cmp.Diff(want, answer.Config); diff != "" {
			t.Errorf("config of a table (-want +got):\n%s", diff)
		}
		if got := objects(t, backend, tt.bucket); got != 1 {
			t.Errorf("%d objects in %s, want the metadata file", got, tt.bucket)
		}
		name := r.want(204, "DELETE", space+"/n/tables/t?purgeRequested=true", "").header.Get("X-Lethe-Job")
		var job struct {
			State    string
			Progress struct{ Notes []string }
		}
		decode(t, r.want(200, "GET", "/v1/jobs/"+name, ""), &job)
		notes := strings.Join(job.Progress.Notes, "; ")
		if job.State != "SUCCEEDED" || !strings.Contains(notes, tt.notes) || (tt.notes == "") != (notes == "") {
			t.Errorf("purge in %s: %s, notes %q, want %q", tt.bucket, job.State, notes, tt.notes)
		}
		if got := objects(t, backend, tt.bucket); got != 0 {
			t.Errorf("%d objects left in %s", got, tt.bucket)
		}
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if strings.Contains(r.log.String(), secret) {
		t.Error("the log shows the secret key")
	}
}

func decode(t *testing.T, from reply, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(from.body), into); err != nil {
		t.Fatalf("%v in %s", err, from.body)
	}
}

func objects(t *testing.T, backend gofakes3.Backend, bucket string) int {
	t.Helper()
	list, err := backend.ListBucket(bucket, nil, gofakes3.ListBucketPage{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Contents)
}
