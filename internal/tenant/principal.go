package tenant

import (
	"slices"
	"strings"

	"github.com/lethe-project/lethe/internal/fault"
)

// Principal is who asks, and what its token lets it do.
type Principal struct {
	Name       string
	Tenant     ID
	TenantName string
	Since      int64   // when the tenant was made, milliseconds by the database's clock
	Operator   bool    // may make and drop tenants: the server's own admin token
	Grants     []Grant // of the token; an Operator needs none
}

// Owns reports whether what was made at a time, and names its tenant by name, is of this
// tenant and not of one before it that had the name.
func (p *Principal) Owns(tenantName string, madeAt int64) bool {
	return p.TenantName == tenantName && madeAt >= p.Since
}

// Action is what a grant allows.
type Action string

// The actions. Drives know read, write and delete, catalogs read, write, drop and purge.
const (
	Read   Action = "read"
	Write  Action = "write"
	Delete Action = "delete"
	Drop   Action = "drop"
	Purge  Action = "purge"
)

// Grant is one permission of a token: all of the tenant (Admin), or actions on a part of
// the drive, or on a warehouse or one of its namespaces.
type Grant struct {
	Admin     bool     `json:"admin,omitempty"`
	Drive     string   `json:"drive,omitempty"`     // path prefix, by segments; / is all of it
	Warehouse string   `json:"warehouse,omitempty"` // * is every warehouse
	Namespace []string `json:"namespace,omitempty"` // with everything below it; empty is all
	Actions   []Action `json:"actions,omitempty"`
}

// CodeDenied is the code of a request that the token's grants do not cover.
const CodeDenied fault.Code = "Denied"

// Validate reports what makes a grant meaningless.
func (g Grant) Validate() error {
	invalid := func(format string, args ...any) error {
		return fault.New("tenant.Grant", fault.Invalid, "InvalidGrant", format, args...)
	}
	var allowed []Action
	switch {
	case g.Admin:
		if g.Drive != "" || g.Warehouse != "" || len(g.Namespace) > 0 || len(g.Actions) > 0 {
			return invalid("an admin grant names nothing else")
		}
		return nil
	case (g.Drive == "") == (g.Warehouse == ""):
		return invalid("a grant is for a drive path or for a warehouse")
	case g.Drive != "":
		if len(g.Namespace) > 0 {
			return invalid("a drive has no namespaces")
		}
		if !strings.HasPrefix(g.Drive, "/") || g.Drive != "/" && strings.HasSuffix(g.Drive, "/") {
			return invalid("drive %q is no path such as /reports", g.Drive)
		}
		for name := range strings.SplitSeq(strings.TrimPrefix(g.Drive, "/"), "/") {
			if g.Drive != "/" && (name == "" || name == "." || name == "..") {
				return invalid("drive %q has an empty or dotted component", g.Drive)
			}
		}
		allowed = []Action{Read, Write, Delete}
	default:
		allowed = []Action{Read, Write, Drop, Purge}
	}
	if len(g.Actions) == 0 {
		return invalid("a grant needs actions: %v", allowed)
	}
	for _, a := range g.Actions {
		if !slices.Contains(allowed, a) {
			return invalid("action %q is none of %v", a, allowed)
		}
	}
	return nil
}

// Admin reports whether p may do everything in its tenant.
func (p *Principal) Admin() bool {
	return p.Operator || slices.ContainsFunc(p.Grants, func(g Grant) bool { return g.Admin })
}

// MayDrive reports whether p may do a to what an absolute drive path names.
func (p *Principal) MayDrive(a Action, path string) bool {
	return p.Admin() || slices.ContainsFunc(p.Grants, func(g Grant) bool {
		return g.Drive != "" && slices.Contains(g.Actions, a) && under(path, g.Drive)
	})
}

// under reports whether path is prefix or lies below it, by segments.
func under(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(prefix, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// MayCatalog reports whether p may do a to a namespace of a warehouse, or, where namespace
// is empty, to the warehouse as a whole.
func (p *Principal) MayCatalog(a Action, warehouse string, namespace []string) bool {
	return p.Admin() || slices.ContainsFunc(p.Grants, func(g Grant) bool {
		return (g.Warehouse == "*" || g.Warehouse == warehouse && warehouse != "") && slices.Contains(g.Actions, a) &&
			len(namespace) >= len(g.Namespace) && slices.Equal(namespace[:len(g.Namespace)], g.Namespace)
	})
}

// Denied is the answer to what no grant covers.
func Denied(op string, a Action, what string) error {
	return fault.New(op, fault.Denied, CodeDenied, "the token does not allow to %s %s", a, what)
}
