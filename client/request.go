package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	maxRequests   = 5
	firstBackoff  = 200 * time.Millisecond
	maxRetryAfter = 60 * time.Second
	maxDrain      = 256 << 10 // bytes read of an answer's rest, so that its connection is used again
)

// request is one call of the API, which may take several HTTP requests.
type request struct {
	method string
	path   string // escaped, from the server's root
	query  url.Values
	header map[string]string
	body   any  // sent as JSON, unless it is nil
	into   any  // the answer's JSON goes here, unless it is nil
	keyed  bool // a POST that the server recognises by its Idempotency-Key
	again  bool // a POST or PUT that does the same when it is done twice
	wary   bool // not sent again after a try that may have been carried out
}

// do sends r until it succeeds, fails for good, or the tries are used up. It returns
// the header of the successful answer.
func (c *Client) do(ctx context.Context, r request) (http.Header, error) {
	header, _, err := c.tell(ctx, r)
	return header, err
}

// tell is do, and tells whether the answer of an earlier try was lost: the server may
// have done then what the last try was refused for.
func (c *Client) tell(ctx context.Context, r request) (header http.Header, lost bool, err error) {
	var body []byte
	if r.body != nil {
		if body, err = json.Marshal(r.body); err != nil {
			return nil, false, fmt.Errorf("client: encode request: %w", err)
		}
	}
	key := ""
	if r.keyed || r.method == http.MethodDelete {
		key = idempotencyKey(time.Now())
	}
	for try := 1; ; try++ {
		if header, err = c.once(ctx, r, body, key); err == nil {
			return header, lost, nil
		}
		if ctx.Err() != nil {
			return nil, lost, fmt.Errorf("client: %s %s: %w", r.method, r.path, context.Cause(ctx))
		}
		if try == maxRequests || !r.repeatable(err) {
			return nil, lost, err
		}
		lost = lost || ambiguous(err)
		if err := sleep(ctx, pause(try, err)); err != nil {
			return nil, lost, fmt.Errorf("client: %s %s: %w", r.method, r.path, err)
		}
	}
}

// ambiguous reports whether a request that failed with err may have been carried out.
func ambiguous(err error) bool {
	switch StatusOf(err) {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusRequestTimeout:
		return false // the server did nothing, and says so
	}
	return true
}

// once sends one HTTP request. The body of its answer is closed on return, so that no
// connection is held while do sleeps.
func (c *Client) once(ctx context.Context, r request, body []byte, key string) (http.Header, error) {
	req, err := c.build(ctx, r, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := c.send(req) //nolint:bodyclose // finish does
	if err != nil {
		return nil, err
	}
	return resp.Header, finish(resp, r)
}

// build makes an HTTP request with all that r says.
func (c *Client) build(ctx context.Context, r request, body io.Reader) (*http.Request, error) {
	target := c.base.String() + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	req.Header.Set("User-Agent", c.opts.UserAgent)
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	return req, nil
}

// send sends an HTTP request and returns its answer, whose body the caller closes. An
// answer that is no success is an *Error.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	resp, err := c.opts.HTTPClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer closeAnswer(resp)
		return nil, readError(resp)
	}
	return resp, nil
}

// closeAnswer lets the connection of an answer be used again.
func closeAnswer(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	_ = resp.Body.Close()
}

// finish reads the answer of a request that succeeded.
func finish(resp *http.Response, r request) error {
	defer closeAnswer(resp)
	if r.into == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(r.into); err != nil {
		return fmt.Errorf("client: %s %s: read the answer: %w", r.method, r.path, err)
	}
	return nil
}

// repeatable reports whether sending the request again is safe and may help.
func (r request) repeatable(err error) bool {
	switch r.method {
	case http.MethodGet, http.MethodHead, http.MethodDelete:
	default:
		if !r.keyed && !r.again {
			return false
		}
	}
	return transient(err) && (!r.wary || !ambiguous(err))
}

// transient reports whether trying again may help.
func transient(err error) bool {
	switch StatusOf(err) {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case 0: // no answer, or half of one
	default:
		return false
	}
	var (
		certificate *tls.CertificateVerificationError
		network     net.Error // a *url.Error is one
	)
	if errors.As(err, &certificate) {
		return false
	}
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF)
}

// pause is how long to wait after a failed try: what the server asked for, else a
// backoff that doubles, with jitter so that clients do not come back together.
func pause(try int, err error) time.Duration {
	var answer *Error
	if errors.As(err, &answer) && answer.RetryAfter > 0 {
		return min(answer.RetryAfter, maxRetryAfter)
	}
	full := firstBackoff << (try - 1)
	return full/2 + mathrand.N(full/2)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// idempotencyKey returns a UUID of version 7, as the Iceberg specification asks.
func idempotencyKey(now time.Time) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(now.UnixMilli()))
	copy(b[:6], ms[2:])
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// paged walks a list page by page; a page is fetched when the one before is used up.
// The walk may be begun again.
func paged[T any](query url.Values, page func(query url.Values) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := maps.Clone(query)
		for {
			items, next, err := page(query)
			if err == nil && next != "" && next == query.Get("pageToken") {
				err = errors.New("client: the server answered the same page twice")
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			query.Set("pageToken", next)
		}
	}
}
