package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/lethe-project/lethe/internal/blob/s3"
)

const (
	storeBucket = "bench"
	storePrefix = "warehouse"
	storeKey    = "bench" // a store of this program checks no signature
)

// store is an S3 store: one that this program is itself, in a process of its own, or one
// that runs already.
type store struct {
	url, bucket string
	key, secret string
	cmd         *exec.Cmd // nil: it runs already
	input       io.Closer
}

// startStore runs this program once more, as a store that takes its time for every
// request. more are flags of storeCmd.
func startStore(ctx context.Context, delay time.Duration, more ...string) (*store, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"store", "--delay", delay.String()}, more...)...)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &store{bucket: storeBucket, key: storeKey, secret: storeKey, cmd: cmd, input: input}
	s.url, err = bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the store: %w", err), s.stop())
	}
	s.url = strings.TrimSpace(s.url)
	return s, nil
}

// stop ends the process, which watches its input.
func (s *store) stop() error {
	if s.cmd == nil {
		return nil
	}
	return errors.Join(s.input.Close(), s.cmd.Wait())
}

// cpu returns the processor time of the stub so far; that of a store that runs already is unknown.
func (s *store) cpu() (time.Duration, error) {
	if s.cmd == nil {
		return 0, nil
	}
	return cpuOf(s.cmd.Process.Pid)
}

func (s *store) root() string { return "s3://" + s.bucket + "/" + storePrefix }

// storage is the server's setting.
func (s *store) storage() string {
	return s.root() + "?path-style=true&endpoint=" + url.QueryEscape(s.url)
}

// credentials are variables that keep the SDK from looking for others.
func (s *store) credentials() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + s.key, "AWS_SECRET_ACCESS_KEY=" + s.secret, "AWS_EC2_METADATA_DISABLED=true"}
}

func (s *store) open(ctx context.Context) (*s3.Bucket, error) {
	return s3.Open(ctx, s3.Config{
		Bucket: s.bucket, Prefix: storePrefix, Endpoint: s.url,
		Credentials: credentials.NewStaticCredentialsProvider(s.key, s.secret, ""),
	})
}

// storeCmd is the other process.
type storeCmd struct {
	Delay       time.Duration `default:"20ms" help:"How long each request takes."`
	DeleteDelay time.Duration `help:"How long each DeleteObjects takes, instead."`
	Fail        int           `help:"Percent of the keys of a DeleteObjects that are not deleted, and said so."`
	Track       bool          `help:"Remember each key that was deleted."`
}

// serve prints where it listens and ends with its input.
func (c storeCmd) serve(ctx context.Context, input io.Reader, out io.Writer) error {
	debug.SetGCPercent(besideGC)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: newObjects(c), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if _, err := fmt.Fprintf(out, "http://%s\n", listener.Addr()); err != nil {
		return errors.Join(err, server.Close())
	}
	_, err = io.Copy(io.Discard, input)
	err = errors.Join(err, server.Close())
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// objects is as much of S3 as a table and its purge need. It is cheap, because it shares
// the machine with the server that is measured.
type objects struct {
	cfg    storeCmd
	mu     sync.Mutex
	bodies map[string][]byte // by path
	deletes
}

func newObjects(cfg storeCmd) *objects {
	return &objects{cfg: cfg, bodies: map[string][]byte{}, deletes: deletes{dice: rand.New(rand.NewPCG(1, 2)), gone: map[uint64]struct{}{}}}
}

func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	query, key := r.URL.Query(), r.URL.Path
	switch {
	case key == statsPath:
		o.stats(w)
		return
	case query.Has("delete"):
		o.deleteMany(w, body, arrived)
		return
	case r.Method == http.MethodDelete:
		o.deleteOne(w, key, arrived)
		return
	}
	time.Sleep(o.cfg.Delay)
	o.mu.Lock()
	defer o.mu.Unlock()
	held, found := o.bodies[key]
	switch {
	case query.Has("versioning"):
		o.xml(w, http.StatusOK, "<VersioningConfiguration/>")
	case query.Has("list-type"):
		o.list(w, query.Get("prefix"))
	case r.Method == http.MethodPut && found:
		o.xml(w, http.StatusPreconditionFailed, "<Error><Code>PreconditionFailed</Code></Error>")
	case r.Method == http.MethodPut:
		o.bodies[key] = body
	case !found:
		o.xml(w, http.StatusNotFound, "<Error><Code>NoSuchKey</Code></Error>")
	default:
		http.ServeContent(w, r, "", time.Now(), bytes.NewReader(held))
	}
}

func (o *objects) xml(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the client may be gone
}

func (o *objects) list(w http.ResponseWriter, prefix string) {
	var names []string
	for path := range o.bodies {
		if name := strings.TrimPrefix(path, "/"+storeBucket+"/"); strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var answer strings.Builder
	answer.WriteString("<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>")
	for _, name := range names {
		fmt.Fprintf(&answer, "<Contents><Key>%s</Key><Size>%d</Size></Contents>", url.QueryEscape(name), len(o.bodies["/"+storeBucket+"/"+name]))
	}
	answer.WriteString("</ListBucketResult>")
	o.xml(w, http.StatusOK, answer.String())
}
