package iceberg

import (
	"net/http"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

func (e *edge) listNamespaces(c *call) error {
	var parent catalog.Namespace
	if raw := rawQuery(c.r, "parent"); raw != "" {
		var err error
		if parent, err = decodeNamespace(raw); err != nil {
			return err
		}
	}
	if !c.sees(parent) {
		return tenant.Denied("iceberg.listNamespaces", tenant.Read, "namespace "+parent.String())
	}
	page, err := c.page("namespaces", parent)
	if err != nil {
		return err
	}
	list, next, err := e.Catalog.ListNamespaces(c.r.Context(), c.on(), parent, page)
	if err != nil {
		return err
	}
	visible := []catalog.Namespace{}
	for _, n := range list {
		if c.sees(n) {
			visible = append(visible, n)
		}
	}
	return e.reply(c, http.StatusOK, map[string]any{
		"namespaces": visible, "next-page-token": c.token("namespaces", parent, next),
	})
}

type namespaceRequest struct {
	Namespace  catalog.Namespace `json:"namespace"`
	Properties map[string]string `json:"properties"`
}

func (e *edge) createNamespace(c *call) error {
	var req namespaceRequest
	if err := e.decode(c, &req); err != nil {
		return err
	}
	if err := c.may(req.Namespace, tenant.Write); err != nil {
		return err
	}
	if err := e.Catalog.CreateNamespace(c.r.Context(), c.on(), req.Namespace, req.Properties); err != nil {
		return err
	}
	e.audit(c, "namespace.create", "namespace", req.Namespace.String())
	return e.showNamespace(c, req)
}

func (e *edge) showNamespace(c *call, req namespaceRequest) error {
	properties, err := e.Catalog.NamespaceProperties(c.r.Context(), c.on(), req.Namespace)
	if fault.Is(err, catalog.CodeNoSuchNamespace) { // dropped again already: it was made all the same
		properties, err = req.Properties, nil
	}
	if err != nil {
		return err
	}
	return e.reply(c, http.StatusOK, map[string]any{"namespace": req.Namespace, "properties": properties})
}

func (e *edge) loadNamespace(c *call) error {
	n, err := c.namespace()
	if err != nil {
		return err
	}
	if !c.sees(n) {
		return tenant.Denied("iceberg.loadNamespace", tenant.Read, "namespace "+n.String())
	}
	properties, err := e.Catalog.NamespaceProperties(c.r.Context(), c.on(), n)
	if err != nil {
		return err
	}
	return e.reply(c, http.StatusOK, map[string]any{"namespace": n, "properties": properties})
}

func (e *edge) namespaceExists(c *call) error {
	n, err := c.namespace()
	if err != nil {
		return err
	}
	if !c.sees(n) {
		return tenant.Denied("iceberg.namespaceExists", tenant.Read, "namespace "+n.String())
	}
	if err := e.Catalog.NamespaceExists(c.r.Context(), c.on(), n); err != nil {
		return err
	}
	return e.none(c)
}

func (e *edge) dropNamespace(c *call) error {
	n, err := c.namespace()
	if err != nil {
		return err
	}
	if err := e.Catalog.DropNamespace(c.r.Context(), c.on(), n); err != nil {
		return err
	}
	e.audit(c, "namespace.drop", "namespace", n.String())
	return e.none(c)
}

func (e *edge) updateProperties(c *call) error {
	n, err := c.namespace()
	if err != nil {
		return err
	}
	var req struct {
		Removals []string          `json:"removals"`
		Updates  map[string]string `json:"updates"`
	}
	if err := e.decode(c, &req); err != nil {
		return err
	}
	changes, err := e.Catalog.UpdateProperties(c.r.Context(), c.on(), n, req.Removals, req.Updates)
	if err != nil {
		return err
	}
	return e.reply(c, http.StatusOK, changes)
}

// audit logs who did what.
func (e *edge) audit(c *call, action string, args ...any) {
	args = append(args, "principal", c.principal.Name, "warehouse", c.warehouse.Name, "requestId", c.id)
	e.Logger.InfoContext(c.r.Context(), "audit", append([]any{"action", action}, args...)...)
}
