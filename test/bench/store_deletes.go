package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"html"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
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
	var answer strings.Builder
	answer.Grow(2 * len(body))
	answer.WriteString("<DeleteResult>")
	var named []string
	for rest := string(body); ; {
		_, after, ok := strings.Cut(rest, "<Key>")
		if !ok {
			break
		}
		var key string
		key, rest, _ = strings.Cut(after, "</Key>")
		named = append(named, key)
	}
	refused := o.settle(named, arrived)
	for i, key := range named {
		if refused[i] {
			answer.WriteString("<Error><Key>" + key + "</Key><Code>InternalError</Code><Message>injected</Message></Error>")
		} else {
			answer.WriteString("<Deleted><Key>" + key + "</Key></Deleted>")
		}
	}
	answer.WriteString("</DeleteResult>")
	o.answerAt(arrived, named)
	o.xml(w, http.StatusOK, answer.String())
}

// deleteOne is a DELETE of one object: how a batch of one key comes.
func (o *objects) deleteOne(w http.ResponseWriter, path string, arrived time.Time) {
	named := []string{html.EscapeString(strings.TrimPrefix(path, "/"+storeBucket+"/"))}
	refused := o.settle(named, arrived)
	o.answerAt(arrived, named)
	if refused[0] {
		o.xml(w, http.StatusInternalServerError, "<Error><Code>InternalError</Code><Message>injected</Message></Error>")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// settle deletes and counts the keys of a request, and returns which it refused.
func (o *objects) settle(named []string, arrived time.Time) (refused []bool) {
	refused = make([]bool, len(named))
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen.Requests++
	for i, key := range named {
		data := isData(key)
		if data {
			o.seen.DataKeys++
		}
		switch {
		case o.cfg.Fail > 0 && o.dice.IntN(100) < o.cfg.Fail:
			o.seen.Refused++
			refused[i] = true
		case data && o.cfg.Track:
			o.gone[maphash.String(seed, key)] = struct{}{}
		case !data:
			delete(o.bodies, "/"+storeBucket+"/"+html.UnescapeString(key))
		}
	}
	if slices.ContainsFunc(named, isData) {
		o.seen.DataRequests++
		if o.first.IsZero() {
			o.first = arrived
		}
	}
	return refused
}

// answerAt waits until a request has taken its time.
func (o *objects) answerAt(arrived time.Time, named []string) {
	delay := o.cfg.DeleteDelay
	if delay == 0 {
		delay = o.cfg.Delay
	}
	time.Sleep(time.Until(arrived.Add(delay)))
	if slices.ContainsFunc(named, isData) {
		o.mu.Lock()
		o.last = time.Now()
		o.mu.Unlock()
	}
}

func isData(key string) bool { return strings.Contains(key, "/data/") }

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
