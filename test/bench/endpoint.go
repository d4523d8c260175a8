package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/client"
	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/local"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

const namespace = "bench"

// endpoint is a running server with the store below it. Its requests are sent once: a
// retry would hide what is measured.
type endpoint struct {
	uri, token string
	data       string
	http       *http.Client
	jobs       client.Jobs
	bucket     closableBucket
	space      *blob.Space
}

type closableBucket interface {
	blob.Bucket
	io.Closer
}

// newEndpoint also opens the server's store, nil for the data folder's own.
func newEndpoint(ctx context.Context, uri, token, data string, in *store) (*endpoint, error) {
	c, err := client.New(client.Options{URI: uri, Token: token})
	if err != nil {
		return nil, err
	}
	var bucket closableBucket
	at := "file://" + filepath.Join(data, "warehouse")
	if in == nil {
		bucket, err = local.Open(strings.TrimPrefix(at, "file://"))
	} else {
		at = in.root()
		bucket, err = in.open(ctx)
	}
	if err != nil {
		return nil, err
	}
	root, err := blob.ParseLocation(at)
	if err != nil {
		return nil, errors.Join(err, bucket.Close())
	}
	space, err := blob.NewSpace(blob.Mount{Root: root, Bucket: bucket})
	if err != nil {
		return nil, errors.Join(err, bucket.Close())
	}
	return &endpoint{
		uri: uri, token: token, data: data, bucket: bucket, space: space, jobs: c.Jobs(),
		// Answers are not unpacked: only what the server does is of interest.
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}},
	}, nil
}

func (e *endpoint) close() {
	e.http.CloseIdleConnections()
	_ = e.bucket.Close()
}

// refusal is an answer that is no success.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// do sends one request and fails unless its answer is a success.
func (e *endpoint) do(ctx context.Context, method, path string, header map[string]string, body any) error {
	_, err := e.send(ctx, method, path, header, body)
	return err
}

func (e *endpoint) send(ctx context.Context, method, path string, header map[string]string, body any) (http.Header, error) {
	var raw bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&raw).Encode(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, e.uri+path, &raw)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+e.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 2000))
		return nil, &refusal{status: resp.StatusCode, text: fmt.Sprintf("%s %s: %s: %s", method, path, resp.Status, text)}
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.Header, err
}

// get returns the body of a page.
func (e *endpoint) get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.uri+path, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func (e *endpoint) createNamespace(ctx context.Context) error {
	return e.do(ctx, http.MethodPost, "/iceberg/v1/default/namespaces", nil, map[string]any{"namespace": []string{namespace}})
}

func (e *endpoint) location(name string) string {
	return string(e.space.Root()) + "/" + namespace + "/" + name
}

// register makes a table's metadata and registers it. The data files are made when
// Exist is set; these need not survive a crash and are not synced.
func (e *endpoint) register(ctx context.Context, name string, table purgetest.Synthetic) error {
	at := e.location(name)
	if table.Exist {
		if err := fill(e.dataFiles(table, name)); err != nil {
			return err
		}
	}
	table.Exist, table.UUID = false, uuid.NewString()
	made, err := table.Write(ctx, e.space, at)
	if err != nil {
		return err
	}
	return e.do(ctx, http.MethodPost, "/iceberg/v1/default/namespaces/"+namespace+"/register", nil,
		map[string]any{"name": name, "metadata-location": made.Metadata})
}

// drop is one drop with purge: the job and how long the answer took.
func (e *endpoint) drop(ctx context.Context, name string, async bool) (string, time.Duration, error) {
	var header map[string]string
	if async {
		header = map[string]string{"X-Gravitino-Async-Purge": "true"}
	}
	began := time.Now()
	answer, err := e.send(ctx, http.MethodDelete, "/iceberg/v1/default/namespaces/"+namespace+"/tables/"+name+"?purgeRequested=true", header, nil)
	took := time.Since(began)
	if err != nil {
		return "", took, err
	}
	return answer.Get("X-Lethe-Job"), took, nil
}

// succeeded waits for a job's end and fails unless it is a success.
func (e *endpoint) succeeded(ctx context.Context, job string) (client.Counts, error) {
	j, err := e.jobs.Wait(ctx, job, client.WaitOptions{})
	if err == nil && j.State != client.Succeeded {
		err = fmt.Errorf("%s ended %s: %s", job, j.State, j.LastError)
	}
	return j.Counts(), err
}
