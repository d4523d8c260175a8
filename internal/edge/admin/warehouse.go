package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

// Warehouses is what the face asks about a tenant's warehouses; *tenant.Directory does it.
type Warehouses interface {
	Warehouses(ctx context.Context, t tenant.ID, after string, limit int) (page []tenant.Info, next string, err error)
	Info(ctx context.Context, t tenant.ID, name string) (tenant.Info, error)
	Create(ctx context.Context, t tenant.ID, spec tenant.Spec) (tenant.Info, error)
	Update(ctx context.Context, t tenant.ID, name string, change tenant.Change) (tenant.Info, error)
	Drop(ctx context.Context, t tenant.ID, name string) error
}

// Closer begins to drop a warehouse with everything in it, and names the job.
type Closer interface {
	CloseWarehouse(ctx context.Context, t tenant.ID, name string) (job string, err error)
}

func (h *handler) warehouseRoutes(route func(method, path string, serve serve)) {
	route(http.MethodGet, "/v1/warehouses", h.administrator(h.listWarehouses))
	route(http.MethodPost, "/v1/warehouses", h.administrator(h.createWarehouse))
	route(http.MethodGet, "/v1/warehouses/{warehouse}", h.administrator(h.showWarehouse))
	route(http.MethodPatch, "/v1/warehouses/{warehouse}", h.administrator(h.updateWarehouse))
	route(http.MethodDelete, "/v1/warehouses/{warehouse}", h.administrator(h.dropWarehouse))
}

// storageBody is where tables live, in JSON. In a change, absent fields stay.
type storageBody struct {
	Type             *string   `json:"type,omitempty"`
	URL              *string   `json:"url,omitempty"`
	Endpoint         *string   `json:"endpoint,omitempty"`
	Region           *string   `json:"region,omitempty"`
	PathStyle        *bool     `json:"pathStyle,omitempty"`
	AllowedLocations *[]string `json:"allowedLocations,omitempty"`
}

func (b *storageBody) spec() tenant.StorageSpec {
	if b == nil {
		b = &storageBody{}
	}
	return tenant.StorageSpec{
		URL: value(b.URL), Endpoint: value(b.Endpoint), Region: value(b.Region), PathStyle: b.PathStyle, AllowedLocations: value(b.AllowedLocations),
	}
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// credentialsBody is only ever read.
type credentialsBody struct {
	Type            string        `json:"type"`
	AccessKeyID     string        `json:"accessKeyId"`
	SecretAccessKey tenant.Secret `json:"secretAccessKey"`
	SessionToken    tenant.Secret `json:"sessionToken"`
	RoleARN         string        `json:"roleArn"`
	ExternalID      tenant.Secret `json:"externalId"`
	SessionName     string        `json:"sessionName"`
	STSEndpoint     string        `json:"stsEndpoint"`
}

func (b *credentialsBody) credentials() tenant.Credentials {
	if b == nil {
		return tenant.Credentials{Type: tenant.CredentialsDefault}
	}
	return tenant.Credentials{
		Type: tenant.CredentialType(b.Type), AccessKeyID: b.AccessKeyID, SecretAccessKey: b.SecretAccessKey, SessionToken: b.SessionToken,
		RoleARN: b.RoleARN, ExternalID: b.ExternalID, SessionName: b.SessionName, STSEndpoint: b.STSEndpoint,
	}
}

// warehouseBody is a warehouse in JSON. Of its credentials only the type and the end of
// the access key's id are shown.
type warehouseBody struct {
	Name        string      `json:"name"`
	Storage     storageBody `json:"storage"`
	Credentials struct {
		Type        string `json:"type"`
		AccessKeyID string `json:"accessKeyId,omitempty"`
	} `json:"credentials"`
	TableDefaults  map[string]string `json:"tableDefaults"`
	TableOverrides map[string]string `json:"tableOverrides"`
	CreatedAt      time.Time         `json:"createdAt"`
	UpdatedAt      time.Time         `json:"updatedAt"`
	Version        int64             `json:"version"`
	Closing        bool              `json:"closing"`
}

func encodeWarehouse(i tenant.Info) warehouseBody {
	kind := i.Storage.Type()
	b := warehouseBody{
		Name: i.Name, TableDefaults: i.TableDefaults, TableOverrides: i.TableOverrides,
		CreatedAt: moment(i.CreatedAt), UpdatedAt: moment(i.UpdatedAt), Version: i.Version, Closing: i.Closing,
		Storage: storageBody{Type: &kind, URL: &i.Storage.URL, PathStyle: i.Storage.PathStyle},
	}
	if i.Storage.Endpoint != "" {
		b.Storage.Endpoint = &i.Storage.Endpoint
	}
	if i.Storage.Region != "" {
		b.Storage.Region = &i.Storage.Region
	}
	if len(i.Storage.AllowedLocations) > 0 {
		b.Storage.AllowedLocations = &i.Storage.AllowedLocations
	}
	b.Credentials.Type, b.Credentials.AccessKeyID = string(i.Credentials.Type), i.Credentials.AccessKeyID
	for _, m := range []*map[string]string{&b.TableDefaults, &b.TableOverrides} {
		if *m == nil {
			*m = map[string]string{}
		}
	}
	return b
}

// permitted keeps what is the server's own for its administrator: directories of its
// machine, and the rights that its surroundings give it.
func (h *handler) permitted(ctx context.Context, kind string, c *tenant.Credentials) error {
	if h.Caller(ctx).Operator {
		return nil
	}
	if kind == "file" || (c != nil && c.Type != tenant.CredentialsStatic) {
		return fault.New("admin.permitted", fault.Denied, tenant.CodeDenied,
			"only the server's administrator may use its directories, or its own credentials (types default and assume-role): give credentials of type static")
	}
	return nil
}

func (h *handler) listWarehouses(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	limit, err := number(query.Get("pageSize"), "pageSize", 1, defaultPage)
	if err != nil {
		return err
	}
	page, next, err := h.Warehouses.Warehouses(r.Context(), h.Caller(r.Context()).Tenant, query.Get("pageToken"), min(limit, maxPage))
	if err != nil {
		return err
	}
	body := struct {
		Warehouses    []warehouseBody `json:"warehouses"`
		NextPageToken *string         `json:"nextPageToken"`
	}{Warehouses: make([]warehouseBody, len(page))}
	for i, info := range page {
		body.Warehouses[i] = encodeWarehouse(info)
	}
	if next != "" {
		body.NextPageToken = &next
	}
	h.write(w, r, http.StatusOK, body)
	return nil
}

func (h *handler) createWarehouse(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Name           string            `json:"name"`
		Storage        *storageBody      `json:"storage"`
		Credentials    *credentialsBody  `json:"credentials"`
		TableDefaults  map[string]string `json:"tableDefaults"`
		TableOverrides map[string]string `json:"tableOverrides"`
	}
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	spec := tenant.Spec{
		Name: body.Name, Storage: body.Storage.spec(), Credentials: body.Credentials.credentials(),
		TableDefaults: body.TableDefaults, TableOverrides: body.TableOverrides,
	}
	var info tenant.Info
	err := sameType(body.Storage, spec.Storage.Type())
	if err == nil {
		err = h.permitted(r.Context(), spec.Storage.Type(), &spec.Credentials)
	}
	if err == nil {
		info, err = h.Warehouses.Create(r.Context(), h.Caller(r.Context()).Tenant, spec)
	}
	h.auditWarehouse(r.Context(), "create", body.Name, err)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/warehouses/"+info.Name)
	h.write(w, r, http.StatusCreated, encodeWarehouse(info))
	return nil
}

func sameType(b *storageBody, kind string) error {
	if b != nil && b.Type != nil && *b.Type != kind {
		return invalid("storage.type is %q, and the URL is one of type %q: leave the type out", *b.Type, kind)
	}
	return nil
}

func (h *handler) showWarehouse(w http.ResponseWriter, r *http.Request) error {
	info, err := h.Warehouses.Info(r.Context(), h.Caller(r.Context()).Tenant, r.PathValue("warehouse"))
	if err != nil {
		return err
	}
	h.write(w, r, http.StatusOK, encodeWarehouse(info))
	return nil
}

// updateWarehouse changes what the body names: credentials and table properties as a
// whole, storage field by field.
func (h *handler) updateWarehouse(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Storage        *storageBody       `json:"storage"`
		Credentials    *credentialsBody   `json:"credentials"`
		TableDefaults  *map[string]string `json:"tableDefaults"`
		TableOverrides *map[string]string `json:"tableOverrides"`
	}
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	name := r.PathValue("warehouse")
	change := tenant.Change{TableDefaults: body.TableDefaults, TableOverrides: body.TableOverrides}
	if s := body.Storage; s != nil {
		change.URL, change.Endpoint, change.Region = s.URL, s.Endpoint, s.Region
		change.PathStyle, change.AllowedLocations = s.PathStyle, s.AllowedLocations
	}
	if body.Credentials != nil {
		c := body.Credentials.credentials()
		change.Credentials = &c
	}
	at := h.Caller(r.Context()).Tenant
	info, err := h.Warehouses.Info(r.Context(), at, name)
	if err == nil {
		err = sameType(body.Storage, info.Storage.Type())
	}
	if err == nil && (body.Storage != nil || change.Credentials != nil) {
		// Also where they stay: another endpoint or location would be used with them.
		effective := &tenant.Credentials{Type: info.Credentials.Type}
		if change.Credentials != nil {
			effective = change.Credentials
		}
		err = h.permitted(r.Context(), info.Storage.Type(), effective)
	}
	if err == nil {
		info, err = h.Warehouses.Update(r.Context(), at, name, change)
	}
	h.auditWarehouse(r.Context(), "update", name, err)
	if err != nil {
		return err
	}
	h.write(w, r, http.StatusOK, encodeWarehouse(info))
	return nil
}

// dropWarehouse answers DELETE: a warehouse that has nothing goes at once, with purge=true
// one that has something by a job.
func (h *handler) dropWarehouse(w http.ResponseWriter, r *http.Request) error {
	name, at := r.PathValue("warehouse"), h.Caller(r.Context()).Tenant
	job := ""
	var err error
	switch r.URL.Query().Get("purge") {
	case "", "false":
		err = h.Warehouses.Drop(r.Context(), at, name)
	case "true":
		if err = fault.New("admin.dropWarehouse", fault.Unsupported, "NotImplemented", "this server drops no warehouse with tables"); h.Closer != nil {
			job, err = h.Closer.CloseWarehouse(r.Context(), at, name)
		}
	default:
		err = invalid("purge is true or false")
	}
	h.auditWarehouse(r.Context(), "drop", name, err, "purge", r.URL.Query().Get("purge") == "true", "job", job)
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

func (h *handler) auditWarehouse(ctx context.Context, action, name string, err error, more ...any) {
	outcome := "ok"
	if err != nil {
		outcome = fault.KindOf(err).String()
	}
	h.Logger.InfoContext(ctx, "audit", append([]any{
		"action", "warehouse." + action, "principal", h.Principal(ctx), "requestId", h.RequestID(ctx),
		"tenant", h.Caller(ctx).TenantName, "warehouse", name, "outcome", outcome,
	}, more...)...)
}
