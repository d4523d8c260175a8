package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"html"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// statsPath is where the store says what it was asked. No bucket has such a name.
const statsPath = "/-/stats"

// storeStats is what a store was asked to delete since it began.
type storeStats struct {
	Requests     int64   `json:"requests"`      // DeleteObjects, and DELETEs of one object
	DataRequests int64   `json:"data_requests"` // those that name data files
	DataKeys     int64   `json:"data_keys"`     // named by these, repeated ones counted again
	DataSeconds  float64 `json:"data_seconds"`  // from the first of these to the answer of the last
	Refused      int64   `json:"refused"`       // keys whose failure was injected
	DataGone     int64   `json:"data_gone"`     // different data files deleted; tracked stores only
	Left         int     `json:"left"`          // objects that the store holds
}

// deletes is what objects counts, under its lock.
type deletes struct {
	seen        storeStats
	first, last time.Time // of the requests with data files
	dice        *rand.Rand
	gone        map[uint64]struct{}
}

var seed = maphash.MakeSeed()

// deleteMany takes the keys as they stand in the XML and gives them back like that, a
// fixed time after the request came. Data files need not be there.
func (o *objects) deleteMany(w http.ResponseWriter, body []byte, arrived time.Time) {
	named := make([][]byte, 0, batch)
	for rest := body; ; {
		_, after, ok := bytes.Cut(rest, keyBegin)
		if !ok {
			break
		}
		var key []byte
		key, rest, _ = bytes.Cut(after, keyEnd)
		named = append(named, key)
	}
	refused, data := o.settle(named, arrived)
	answer := append(make([]byte, 0, len(body)+len(body)/4), "<DeleteResult>"...)
	for i, key := range named {
		before, behind := "<Deleted><Key>", "</Key></Deleted>"
		if refused != nil && refused[i] {
			before, behind = "<Error><Key>", "</Key><Code>InternalError</Code><Message>injected</Message></Error>"
		}
		answer = append(append(append(answer, before...), key...), behind...)
	}
	answer = append(answer, "</DeleteResult>"...)
	o.answerAt(arrived, data)
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = w.Write(answer) // the client may be gone
}

var keyBegin, keyEnd = []byte("<Key>"), []byte("</Key>")

// deleteOne is a DELETE of one object: how a batch of one key comes.
func (o *objects) deleteOne(w http.ResponseWriter, path string, arrived time.Time) {
	named := [][]byte{[]byte(html.EscapeString(strings.TrimPrefix(path, "/"+storeBucket+"/")))}
	refused, data := o.settle(named, arrived)
	o.answerAt(arrived, data)
	if refused != nil {
		o.xml(w, http.StatusInternalServerError, "<Error><Code>InternalError</Code><Message>injected</Message></Error>")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// settle deletes and counts the keys of a request. It returns which it refused, nil for
// none, and whether there are data files among them.
func (o *objects) settle(named [][]byte, arrived time.Time) (refused []bool, data bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen.Requests++
	for i, key := range named {
		isData := bytes.Contains(key, dataDir)
		if isData {
			o.seen.DataKeys++
			data = true
		}
		switch {
		case o.cfg.Fail > 0 && o.dice.IntN(100) < o.cfg.Fail:
			o.seen.Refused++
			if refused == nil {
				refused = make([]bool, len(named))
			}
			refused[i] = true
		case isData && o.cfg.Track:
			o.gone[maphash.Bytes(seed, key)] = struct{}{}
		case !isData:
			delete(o.bodies, "/"+storeBucket+"/"+html.UnescapeString(string(key)))
		}
	}
	if data {
		o.seen.DataRequests++
		if o.first.IsZero() {
			o.first = arrived
		}
	}
	return refused, data
}

var dataDir = []byte("/data/")

// answerAt waits until a request has taken its time.
func (o *objects) answerAt(arrived time.Time, data bool) {
	delay := o.cfg.DeleteDelay
	if delay == 0 {
		delay = o.cfg.Delay
	}
	time.Sleep(time.Until(arrived.Add(delay)))
	if data {
		o.mu.Lock()
		o.last = time.Now()
		o.mu.Unlock()
	}
}

func (o *objects) stats(w http.ResponseWriter) {
	o.mu.Lock()
	s := o.seen
	s.DataGone, s.Left = int64(len(o.gone)), len(o.bodies)
	if !o.first.IsZero() {
		s.DataSeconds = o.last.Sub(o.first).Seconds()
	}
	o.mu.Unlock()
	_ = json.NewEncoder(w).Encode(s) // the client may be gone
}

// stats asks a store of this program.
func (s *store) stats(ctx context.Context) (out storeStats, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+statsPath, http.NoBody)
	if err != nil {
		return out, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return out, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("stats of the store: %s", resp.Status)
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(raw, &out)
}
