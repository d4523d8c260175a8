package iceberg

import (
	"net/http"
	"slices"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

// granted asks whether the token covers a route that names its namespace in the path.
func (c *call) granted(rt *route) error {
	if rt.needs == "" || c.principal.Admin() {
		return nil
	}
	n, err := c.namespace()
	if err != nil {
		return err
	}
	return c.may(n, rt.needs)
}

// may refuses, in the spec's model of 403, what no grant of the token covers.
func (c *call) may(n catalog.Namespace, actions ...tenant.Action) error {
	for _, a := range actions {
		if !c.principal.MayCatalog(a, c.warehouse.Name, n) {
			return tenant.Denied("iceberg.may", a, "namespace "+n.String()+" of warehouse "+c.warehouse.Name)
		}
	}
	return nil
}

// sees reports whether a namespace is shown: one that the token lets read, or one above a
// namespace that it has any grant for, so that clients find their way down. No namespace
// means the warehouse.
func (c *call) sees(n catalog.Namespace) bool {
	if c.principal.MayCatalog(tenant.Read, c.warehouse.Name, n) {
		return true
	}
	return slices.ContainsFunc(c.principal.Grants, func(g tenant.Grant) bool {
		return (g.Warehouse == "*" || g.Warehouse == c.warehouse.Name) && len(g.Namespace) >= len(n) && slices.Equal(g.Namespace[:len(n)], []string(n))
	})
}

// open refuses to make or change anything in a warehouse that is being dropped; what is
// there can be read, and dropped.
func (c *call) open(rt *route) error {
	if !c.warehouse.Closing || rt.method != http.MethodPost || rt.needs == tenant.Read || rt.needs == tenant.Drop {
		return nil
	}
	return fault.New("iceberg.open", fault.Conflict, tenant.CodeWarehouseClosing, "warehouse %q is being dropped", c.warehouse.Name)
}
