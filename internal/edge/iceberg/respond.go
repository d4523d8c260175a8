package iceberg

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// gzipFrom is the size from which an answer is compressed for clients that take it, in
// bytes. Below it the time is worth more than the bytes.
const gzipFrom = 16 << 10

// reply writes JSON; HEAD and 204 have no body.
func (e *edge) reply(c *call, status int, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return e.send(c, status, data)
}

func (e *edge) send(c *call, status int, data []byte) error {
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	if len(data) >= gzipFrom {
		h.Set("Vary", "Accept-Encoding")
		if takesGzip(c.r) {
			packed, err := e.pack(data)
			if err != nil {
				return err
			}
			data = packed
			h.Set("Content-Encoding", "gzip")
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(data)))
	c.w.WriteHeader(status)
	if c.r.Method == http.MethodHead {
		return nil
	}
	if _, err := c.w.Write(data); err != nil {
		e.Logger.InfoContext(c.r.Context(), "client went away", "requestId", c.id, "error", err)
	}
	return nil
}

// takesGzip reads Accept-Encoding (RFC 9110, 12.5.3) as far as it decides about gzip.
func takesGzip(r *http.Request) bool {
	for _, header := range r.Header.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(header, ",") {
			coding, params, _ := strings.Cut(part, ";")
			coding = strings.ToLower(strings.TrimSpace(coding))
			if coding != "gzip" && coding != "x-gzip" && coding != "*" {
				continue
			}
			q, found := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
			weight, err := strconv.ParseFloat(q, 64)
			return !found || (err == nil && weight > 0)
		}
	}
	return false
}

// pack compresses with a writer that was used before: a new one is 800 KiB of tables.
func (e *edge) pack(data []byte) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(len(data) / 4)
	zw, ok := e.packers.Get().(*gzip.Writer)
	if ok {
		zw.Reset(&b)
	} else {
		var err error
		if zw, err = gzip.NewWriterLevel(&b, gzip.BestSpeed); err != nil {
			return nil, err
		}
	}
	defer e.packers.Put(zw)
	if _, err := zw.Write(data); err != nil {
		return nil, err
	}
	if err := zw.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (e *edge) none(c *call) error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
