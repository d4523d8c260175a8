// Package client speaks to a Lethe server: the drive (files, uploads, events, trash),
// tenants and tokens, jobs, cleanups, and what a person needs of the catalog (list, show,
// register, rename, drop). Table engines use their own Iceberg clients.
//
// It stands on net/http alone and links no database driver and no Arrow. A Client is
// safe for concurrent use. Every call takes a context and obeys it, also while it
// waits between two tries. Bodies are streamed, never held in memory.
//
// Failure model: an answer that is no success is an *Error. GET, HEAD and DELETE are
// tried again, five requests in all, when the network fails or the server answers 408,
// 429, 500, 502, 503 or 504; Retry-After is honoured up to 60 seconds. A DELETE, and a
// POST that registers, unregisters or renames a table, carries an Idempotency-Key, the
// same on every try, so that one whose answer was lost is answered as what it was; these
// POSTs are tried again like a DELETE. A PUT or POST that does the same when it is done
// twice (a whole file, a part, tags, mkdir with parents, a copy, without conditions) is
// tried again too, a body if it can be read again. Any other POST is never repeated, and a
// DELETE of the drive only if it names what it means.
package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Options of a Client. URI is required.
type Options struct {
	// URI of the server, such as http://127.0.0.1:8181. The catalog's URI, which ends
	// in /iceberg, is understood too.
	URI string
	// Token is sent as a bearer token, unless it is empty.
	Token string
	// HTTPClient sends the requests; nil means http.DefaultClient. Its Timeout bounds
	// one request and should be longer than the server's purge wait (45 s).
	HTTPClient *http.Client
	// UserAgent names the program in the server's logs.
	UserAgent string
}

// Client speaks to one server.
type Client struct {
	base *url.URL
	opts Options
}

// New returns a client. It sends nothing yet.
func New(opts Options) (*Client, error) {
	base, err := url.Parse(opts.URI)
	if err != nil {
		return nil, errors.New("client: the URI of the server cannot be parsed")
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("client: the URI of the server must be http://host:port or https://…, not %q", base.Redacted())
	}
	if base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("client: the URI of the server carries more than scheme, host and path")
	}
	base.Path = strings.TrimSuffix(strings.TrimRight(base.Path, "/"), "/iceberg")
	base.RawPath = ""
	if opts.HTTPClient == nil {
		opts.HTTPClient = http.DefaultClient
	}
	if opts.UserAgent == "" {
		opts.UserAgent = "lethe-go"
	}
	return &Client{base: base, opts: opts}, nil
}

// URI returns the server's URI, without the catalog's path.
func (c *Client) URI() string { return c.base.String() }

// segment encodes one path segment so that the server gets it byte for byte: no plus
// sign that could mean a space, and no dot segment that a proxy would resolve.
func segment(s string) string {
	switch s {
	case ".":
		return "%2E"
	case "..":
		return "%2E%2E"
	}
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}
