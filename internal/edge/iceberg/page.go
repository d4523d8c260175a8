package iceberg

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/fault"
)

// pageDefault is the page size when a client pages without naming one.
const pageDefault = 1000

// pageToken is what a token holds. It is bound to its list: elsewhere it is an error.
type pageToken struct {
	Warehouse string            `json:"w"`
	Kind      string            `json:"k"`
	Namespace catalog.Namespace `json:"n,omitempty"`
	After     string            `json:"a"`
}

// rawQuery returns the first value of a query parameter as it was sent, undecoded.
func rawQuery(r *http.Request, name string) string {
	for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
		k, v, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(k); err == nil && decoded == name {
			return v
		}
	}
	return ""
}

// page reads pageToken and pageSize. Without pageToken a client gets everything (spec:
// parameter page-token).
func (c *call) page(kind string, n catalog.Namespace) (catalog.Page, error) {
	const op = "iceberg.page"
	q := c.r.URL.Query()
	if !q.Has("pageToken") {
		return catalog.Page{}, nil
	}
	page := catalog.Page{Limit: pageDefault}
	if size := q.Get("pageSize"); size != "" {
		limit, err := strconv.Atoi(size)
		if err != nil || limit < 1 {
			return page, fault.New(op, fault.Invalid, "", "pageSize must be a whole number of at least 1")
		}
		page.Limit = min(limit, 10_000)
	}
	text := q.Get("pageToken")
	if text == "" {
		return page, nil
	}
	var t pageToken
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err != nil || t.Warehouse != c.warehouse.Name || t.Kind != kind || t.Namespace.Key() != n.Key() ||
		t.After == "" || strings.ContainsRune(t.After, 0) {
		return page, fault.New(op, fault.Invalid, "", "pageToken does not belong to this list")
	}
	page.After = t.After
	return page, nil
}

// token is the next page's, nil at the end.
func (c *call) token(kind string, n catalog.Namespace, next catalog.Page) *string {
	if next.After == "" {
		return nil
	}
	data, err := json.Marshal(pageToken{c.warehouse.Name, kind, n, next.After})
	if err != nil { // strings always encode
		return nil
	}
	s := base64.RawURLEncoding.EncodeToString(data)
	return &s
}
