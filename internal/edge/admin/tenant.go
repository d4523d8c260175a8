package admin

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

// Usage is what a tenant's drive holds and may hold; quotas of 0 are none.
type Usage struct {
	Bytes, Files, QuotaBytes, QuotaFiles int64
}

// Tenants is what the face asks about tenants.
type Tenants interface {
	CreateTenant(ctx context.Context, name string) (tenant.Tenant, error)
	Tenants(ctx context.Context) ([]tenant.Tenant, error)
	Tenant(ctx context.Context, name string) (tenant.Tenant, Usage, error)
	SetQuota(ctx context.Context, name string, bytes, files int64) error
	// DropTenant removes a tenant that has nothing. With purge it drops what is there
	// first, by a job whose name it returns.
	DropTenant(ctx context.Context, name string, purge bool) (job string, err error)
}

// tenantBody is a tenant in JSON; usage is there where one tenant was asked for.
type tenantBody struct {
	Name      string     `json:"name"`
	Closing   bool       `json:"closing"`
	CreatedAt time.Time  `json:"createdAt"`
	Usage     *usageBody `json:"usage,omitempty"`
}

type usageBody struct {
	Bytes      int64 `json:"bytes"`
	Files      int64 `json:"files"`
	QuotaBytes int64 `json:"quotaBytes"`
	QuotaFiles int64 `json:"quotaFiles"`
}

func encodeTenant(t tenant.Tenant) tenantBody {
	return tenantBody{Name: t.Name, Closing: t.ClosingAt != 0, CreatedAt: moment(t.CreatedAt)}
}

// tenantRoutes adds the routes of tenants and tokens.
func (h *handler) tenantRoutes(route func(method, path string, serve serve)) {
	route(http.MethodGet, "/v1/tenants", h.operator(h.listTenants))
	route(http.MethodPost, "/v1/tenants", h.operator(h.createTenant))
	route(http.MethodGet, "/v1/tenants/{tenant}", h.tenantAdmin(h.showTenant))
	route(http.MethodDelete, "/v1/tenants/{tenant}", h.operator(h.dropTenant))
	route(http.MethodPut, "/v1/tenants/{tenant}/quota", h.operator(h.setQuota))
	route(http.MethodGet, "/v1/tenants/{tenant}/tokens", h.tenantAdmin(h.listTokens))
	route(http.MethodPost, "/v1/tenants/{tenant}/tokens", h.tenantAdmin(h.createToken))
	route(http.MethodDelete, "/v1/tenants/{tenant}/tokens/{token}", h.tenantAdmin(h.revokeToken))
}

type serve = func(http.ResponseWriter, *http.Request) error

// operator lets only the server's own administrator through.
func (h *handler) operator(next serve) serve {
	return func(w http.ResponseWriter, r *http.Request) error {
		if p := h.Caller(r.Context()); p == nil || !p.Operator {
			return fault.New("admin.operator", fault.Denied, tenant.CodeDenied, "only the server's administrator may do this")
		}
		return next(w, r)
	}
}

// administrator lets those through who may do everything in their own tenant.
func (h *handler) administrator(next serve) serve {
	return func(w http.ResponseWriter, r *http.Request) error {
		if p := h.Caller(r.Context()); p == nil || !p.Admin() {
			return fault.New("admin.administrator", fault.Denied, tenant.CodeDenied, "only an administrator may do this")
		}
		return next(w, r)
	}
}

// tenantAdmin lets the server's administrator through, and those of the tenant that the
// path names. To everybody else another tenant is not there.
func (h *handler) tenantAdmin(next serve) serve {
	return h.administrator(func(w http.ResponseWriter, r *http.Request) error {
		name := r.PathValue("tenant")
		if p := h.Caller(r.Context()); !p.Operator && p.TenantName != name {
			return fault.New("admin.tenantAdmin", fault.NotFound, tenant.CodeNoSuchTenant, "tenant %q does not exist", name)
		}
		return next(w, r)
	})
}

func (h *handler) listTenants(w http.ResponseWriter, r *http.Request) error {
	list, err := h.Tenants.Tenants(r.Context())
	if err != nil {
		return err
	}
	body := struct {
		Tenants []tenantBody `json:"tenants"`
	}{make([]tenantBody, len(list))}
	for i, t := range list {
		body.Tenants[i] = encodeTenant(t)
	}
	h.write(w, r, http.StatusOK, body)
	return nil
}

func (h *handler) createTenant(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Name string `json:"name"`
	}
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	t, err := h.Tenants.CreateTenant(r.Context(), body.Name)
	h.auditTenant(r.Context(), "tenant.create", body.Name, "", err)
	if err != nil {
		return err
	}
	h.write(w, r, http.StatusCreated, encodeTenant(t))
	return nil
}

func (h *handler) showTenant(w http.ResponseWriter, r *http.Request) error {
	t, u, err := h.Tenants.Tenant(r.Context(), r.PathValue("tenant"))
	if err != nil {
		return err
	}
	body := encodeTenant(t)
	body.Usage = &usageBody{u.Bytes, u.Files, u.QuotaBytes, u.QuotaFiles}
	h.write(w, r, http.StatusOK, body)
	return nil
}

// setQuota answers PUT /v1/tenants/{tenant}/quota with {"bytes","files"}; 0 is no quota.
func (h *handler) setQuota(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Bytes *int64 `json:"bytes"`
		Files *int64 `json:"files"`
	}
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	if body.Bytes == nil || body.Files == nil {
		return invalid(`a quota is {"bytes":N,"files":N}, 0 for none`)
	}
	name := r.PathValue("tenant")
	err := h.Tenants.SetQuota(r.Context(), name, *body.Bytes, *body.Files)
	h.auditTenant(r.Context(), "tenant.quota", name, "", err)
	if err != nil {
		return err
	}
	return h.showTenant(w, r)
}

func (h *handler) dropTenant(w http.ResponseWriter, r *http.Request) error {
	purge := false
	switch r.URL.Query().Get("purge") {
	case "", "false":
	case "true":
		purge = true
	default:
		return invalid("purge is true or false")
	}
	name := r.PathValue("tenant")
	job, err := h.Tenants.DropTenant(r.Context(), name, purge)
	h.auditTenant(r.Context(), "tenant.drop", name, job, err)
	if err != nil {
		return err
	}
	if job == "" {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	w.Header().Set("Location", "/v1/jobs/"+job)
	h.write(w, r, http.StatusAccepted, map[string]string{"job": job})
	return nil
}

// tokenBody is a token in JSON. Token is its text, shown once.
type tokenBody struct {
	ID        int64          `json:"id"`
	Name      string         `json:"name"`
	Grants    []tenant.Grant `json:"grants"`
	CreatedBy string         `json:"createdBy"`
	CreatedAt time.Time      `json:"createdAt"`
	ExpiresAt *time.Time     `json:"expiresAt"`
	RevokedAt *time.Time     `json:"revokedAt"`
	Token     string         `json:"token,omitempty"`
}

func encodeToken(t tenant.Token, text string) tokenBody {
	b := tokenBody{ID: int64(t.ID), Name: t.Name, Grants: t.Grants, CreatedBy: t.CreatedBy, CreatedAt: moment(t.CreatedAt), Token: text}
	if t.ExpiresAt != 0 {
		at := moment(t.ExpiresAt)
		b.ExpiresAt = &at
	}
	if t.RevokedAt != 0 {
		at := moment(t.RevokedAt)
		b.RevokedAt = &at
	}
	return b
}

// createToken answers POST /v1/tenants/{tenant}/tokens with {"name","grants",
// "expiresIn"}, the last in seconds, 0 or absent for a token that does not expire.
func (h *handler) createToken(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Name      string         `json:"name"`
		Grants    []tenant.Grant `json:"grants"`
		ExpiresIn int64          `json:"expiresIn"`
	}
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	const longest = 100 * 365 * 24 * 3600
	if body.ExpiresIn < 0 || body.ExpiresIn > longest {
		return invalid("expiresIn is a number of seconds, 0 for a token that does not expire")
	}
	t, _, err := h.Tenants.Tenant(r.Context(), r.PathValue("tenant"))
	if err != nil {
		return err
	}
	token, text, err := h.Tokens.Create(r.Context(), t.ID, tenant.NewToken{
		Name: body.Name, Grants: body.Grants, Lifetime: time.Duration(body.ExpiresIn) * time.Second, By: h.Principal(r.Context()),
	})
	h.auditTenant(r.Context(), "token.create", t.Name, strconv.FormatInt(int64(token.ID), 10), err)
	if err != nil {
		return err
	}
	h.write(w, r, http.StatusCreated, encodeToken(token, text))
	return nil
}

func (h *handler) listTokens(w http.ResponseWriter, r *http.Request) error {
	t, _, err := h.Tenants.Tenant(r.Context(), r.PathValue("tenant"))
	if err != nil {
		return err
	}
	list, err := h.Tokens.List(r.Context(), t.ID)
	if err != nil {
		return err
	}
	body := struct {
		Tokens []tokenBody `json:"tokens"`
	}{make([]tokenBody, len(list))}
	for i, token := range list {
		body.Tokens[i] = encodeToken(token, "")
	}
	h.write(w, r, http.StatusOK, body)
	return nil
}

func (h *handler) revokeToken(w http.ResponseWriter, r *http.Request) error {
	id, err := strconv.ParseInt(r.PathValue("token"), 10, 64)
	if err != nil {
		return invalid("%q is no id of a token", r.PathValue("token"))
	}
	t, _, err := h.Tenants.Tenant(r.Context(), r.PathValue("tenant"))
	if err != nil {
		return err
	}
	token, err := h.Tokens.Revoke(r.Context(), t.ID, tenant.TokenID(id))
	h.auditTenant(r.Context(), "token.revoke", t.Name, r.PathValue("token"), err)
	if err != nil {
		return err
	}
	h.write(w, r, http.StatusOK, encodeToken(token, ""))
	return nil
}

func (h *handler) auditTenant(ctx context.Context, action, name, subject string, err error) {
	outcome := "ok"
	if err != nil {
		outcome = fault.KindOf(err).String()
	}
	h.Logger.InfoContext(ctx, "audit", "action", action, "principal", h.Principal(ctx), "requestId", h.RequestID(ctx),
		"tenant", name, "subject", subject, "outcome", outcome)
}
