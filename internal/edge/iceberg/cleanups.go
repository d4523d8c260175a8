package iceberg

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/tenant"
)

// Cleanups lists the rows of iceberg_cleanup_job.
type Cleanups interface {
	Name(id job.ID) string
	List(ctx context.Context, f purge.Filter, p job.Page) ([]purge.Listed, job.Page, error)
}

// cleanup is one row in the manner of Gravitino, with Lethe's own fields.
type cleanup struct {
	ID         int64           `json:"id"`
	Job        string          `json:"job"`
	Metalake   string          `json:"metalake"`
	Catalog    string          `json:"catalog"`
	Namespace  []string        `json:"namespace"`
	Table      string          `json:"table"`
	ObjectType string          `json:"objectType"`
	State      job.State       `json:"state"`
	Attempts   int             `json:"attempts"`
	LastError  string          `json:"lastError"`
	Phase      string          `json:"phase"`
	Progress   json.RawMessage `json:"progress"`
	CreatedBy  string          `json:"createdBy"`
	CreatedAt  time.Time       `json:"createdAt"`
	UpdatedAt  time.Time       `json:"updatedAt"`
}

// NewCleanups returns the handler of
// GET /api/metalakes/{metalake}/catalogs/{catalog}/cleanups, newest row first, with the
// filters namespace (levels joined by %1F), table and state, and pageToken, pageSize.
func NewCleanups(cfg Config) http.Handler {
	e := &edge{Config: cfg.withDefaults()}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := newCall(w, r)
		defer e.recovered(c, new(bool))
		err := e.authenticate(c)
		if err == nil {
			err = c.checkQuery()
		}
		if err == nil {
			err = e.listCleanups(c)
		}
		if err != nil {
			e.fail(c, err, false)
		}
	})
}

func (e *edge) listCleanups(c *call) error {
	const op = "iceberg.cleanups"
	const pattern = "api/metalakes/{metalake}/catalogs/{catalog}/cleanups"
	vars, ok := match(pattern, strings.Split(c.path(), "/"))
	if !ok {
		return fault.New(op, fault.NotFound, "NoSuchRoute", "no such path")
	}
	if c.r.Method != http.MethodGet {
		return fault.New(op, fault.Unsupported, "", "%s is not offered on this path", c.r.Method)
	}
	e.routed(c, "/", pattern)
	metalake, err := decodeSegment(vars[0])
	if err != nil {
		return err
	}
	name, err := decodeSegment(vars[1])
	if err != nil {
		return err
	}
	if metalake != c.principal.TenantName {
		return fault.New(op, fault.NotFound, "NoSuchMetalake", "metalake %q does not exist", metalake)
	}
	if c.warehouse, err = e.Tenants.Warehouse(c.r.Context(), c.principal.Tenant, name); err != nil {
		return err
	}
	filter, page, err := c.cleanupFilter(metalake, name)
	if err != nil {
		return err
	}
	rows, next, err := e.Cleanups.List(c.r.Context(), filter, page)
	if err != nil {
		return err
	}
	out := []cleanup{}
	for _, l := range rows {
		row, err := e.cleanup(l)
		if err != nil {
			return err
		}
		if c.principal.Owns(metalake, l.Row.CreatedAt) && c.principal.MayCatalog(tenant.Read, name, row.Namespace) {
			out = append(out, row)
		}
	}
	var token *string
	if next.Before != 0 {
		s := base64.RawURLEncoding.EncodeToString([]byte(name + "\n" + strconv.FormatInt(int64(next.Before), 10)))
		token = &s
	}
	return e.reply(c, http.StatusOK, map[string]any{"cleanups": out, "nextPageToken": token})
}

func (c *call) cleanupFilter(metalake, warehouse string) (f purge.Filter, p job.Page, err error) {
	const op = "iceberg.cleanups"
	q := c.r.URL.Query()
	f = purge.Filter{Tenant: metalake, Warehouse: warehouse, Name: q.Get("table")}
	if !plain(f.Name) {
		return f, p, fault.New(op, fault.Invalid, "", "table is not valid UTF-8 or has a NUL")
	}
	if raw := rawQuery(c.r, "namespace"); raw != "" {
		n, err := decodeNamespace(raw)
		if err != nil {
			return f, p, err
		}
		if slices.ContainsFunc(n, func(level string) bool { return level == "" || !plain(level) }) {
			return f, p, fault.New(op, fault.Invalid, "", "namespace has a level that is empty, not valid UTF-8 or has a NUL")
		}
		f.Namespace = n.Key()
	}
	if state := q.Get("state"); state != "" {
		if f.State, err = job.ParseState(state); err != nil {
			return f, p, fault.E(op, fault.Invalid, err)
		}
	}
	if size := q.Get("pageSize"); size != "" {
		if p.Limit, err = strconv.Atoi(size); err != nil || p.Limit < 1 {
			return f, p, fault.New(op, fault.Invalid, "", "pageSize must be a whole number of at least 1")
		}
	}
	if token := q.Get("pageToken"); token != "" {
		raw, err := base64.RawURLEncoding.DecodeString(token)
		scope, id, ok := strings.Cut(string(raw), "\n")
		before, numErr := strconv.ParseInt(id, 10, 64)
		if err != nil || !ok || scope != warehouse || numErr != nil || before < 1 {
			return f, p, fault.New(op, fault.Invalid, "", "pageToken does not belong to this list")
		}
		p.Before = job.ID(before)
	}
	return f, p, nil
}

// plain reports whether every database takes the text as a name.
func plain(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

func (e *edge) cleanup(l purge.Listed) (cleanup, error) {
	n, err := catalog.ParseNamespaceKey(l.Job.Namespace)
	if err != nil {
		return cleanup{}, err
	}
	r := l.Row
	return cleanup{
		ID: int64(r.ID), Job: e.Cleanups.Name(r.ID), Metalake: l.Job.Tenant, Catalog: l.Job.Warehouse, Namespace: n, Table: l.Job.Name,
		ObjectType: string(l.Job.Type), State: r.State, Attempts: r.Attempts, LastError: r.LastError, Phase: r.Phase, Progress: r.Progress,
		CreatedBy: r.CreatedBy, CreatedAt: time.UnixMilli(r.CreatedAt).UTC(), UpdatedAt: time.UnixMilli(r.UpdatedAt).UTC(),
	}, nil
}
