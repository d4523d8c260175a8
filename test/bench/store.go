package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
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

// store is an S3 store in a process of its own that takes its time for every request.
type store struct {
	url   string
	cmd   *exec.Cmd
	input io.Closer
}

// startStore runs this program once more.
func startStore(ctx context.Context, delay time.Duration) (*store, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "store", "--delay", delay.String())
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
	s := &store{cmd: cmd, input: input}
	s.url, err = bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the store: %w", err), s.stop())
	}
	s.url = strings.TrimSpace(s.url)
	return s, nil
}

// stop ends the process, which watches its input.
func (s *store) stop() error { return errors.Join(s.input.Close(), s.cmd.Wait()) }

func (s *store) root() string { return "s3://" + storeBucket + "/" + storePrefix }

// storage is the server's setting.
func (s *store) storage() string { return s.root() + "?endpoint=" + url.QueryEscape(s.url) }

// credentials are variables that keep the SDK from looking for others.
func (s *store) credentials() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + storeKey, "AWS_SECRET_ACCESS_KEY=" + storeKey, "AWS_EC2_METADATA_DISABLED=true"}
}

func (s *store) open(ctx context.Context) (*s3.Bucket, error) {
	return s3.Open(ctx, s3.Config{
		Bucket: storeBucket, Prefix: storePrefix, Endpoint: s.url,
		Credentials: credentials.NewStaticCredentialsProvider(storeKey, storeKey, ""),
	})
}

// storeCmd is the other process.
type storeCmd struct {
	Delay time.Duration `default:"20ms" help:"How long each request takes."`
}

// serve prints where it listens and ends with its input.
func (c storeCmd) serve(ctx context.Context, input io.Reader, out io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &objects{delay: c.Delay, bodies: map[string][]byte{}}, ReadHeaderTimeout: time.Minute}
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
	delay  time.Duration
	mu     sync.Mutex
	bodies map[string][]byte // by path
}

func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	time.Sleep(o.delay)
	o.mu.Lock()
	defer o.mu.Unlock()
	query, key := r.URL.Query(), r.URL.Path
	held, found := o.bodies[key]
	switch {
	case query.Has("versioning"):
		o.xml(w, http.StatusOK, "<VersioningConfiguration/>")
	case query.Has("delete"):
		o.deleteMany(w, body)
	case query.Has("list-type"):
		o.list(w, query.Get("prefix"))
	case r.Method == http.MethodPut && found:
		o.xml(w, http.StatusPreconditionFailed, "<Error><Code>PreconditionFailed</Code></Error>")
	case r.Method == http.MethodPut:
		o.bodies[key] = body
	case r.Method == http.MethodDelete:
		delete(o.bodies, key)
		w.WriteHeader(http.StatusNoContent)
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

// deleteMany takes the keys as they stand in the XML and gives them back like that.
func (o *objects) deleteMany(w http.ResponseWriter, body []byte) {
	var answer strings.Builder
	answer.Grow(2 * len(body))
	answer.WriteString("<DeleteResult>")
	for rest := string(body); ; {
		_, after, ok := strings.Cut(rest, "<Key>")
		if !ok {
			break
		}
		var key string
		key, rest, _ = strings.Cut(after, "</Key>")
		delete(o.bodies, "/"+storeBucket+"/"+html.UnescapeString(key))
		answer.WriteString("<Deleted><Key>" + key + "</Key></Deleted>")
	}
	answer.WriteString("</DeleteResult>")
	o.xml(w, http.StatusOK, answer.String())
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
