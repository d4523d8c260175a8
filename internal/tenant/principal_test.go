package tenant_test

import (
	"testing"

	"github.com/lethe-project/lethe/internal/tenant"
)

func TestGrants(t *testing.T) {
	t.Parallel()
	reports := &tenant.Principal{Grants: []tenant.Grant{{Drive: "/team/reports", Actions: []tenant.Action{tenant.Read, tenant.Write}}}}
	sales := &tenant.Principal{Grants: []tenant.Grant{
		{Warehouse: "lake", Namespace: []string{"sales"}, Actions: []tenant.Action{tenant.Read, tenant.Drop}},
		{Warehouse: "*", Actions: []tenant.Action{tenant.Write}},
	}}
	admin := &tenant.Principal{Grants: []tenant.Grant{{Admin: true}}}
	operator := &tenant.Principal{Operator: true}
	nobody := &tenant.Principal{}
	for _, c := range []struct {
		name string
		may  bool
		want bool
	}{
		{"the prefix itself", reports.MayDrive(tenant.Read, "/team/reports"), true},
		{"below the prefix", reports.MayDrive(tenant.Write, "/team/reports/a/b"), true},
		{"an action that was not given", reports.MayDrive(tenant.Delete, "/team/reports/a"), false},
		{"a longer name of the same beginning", reports.MayDrive(tenant.Read, "/team/reports2"), false},
		{"above the prefix", reports.MayDrive(tenant.Read, "/team"), false},
		{"the root", reports.MayDrive(tenant.Read, "/"), false},
		{"a drive's token at the catalog", reports.MayCatalog(tenant.Read, "lake", []string{"sales"}), false},
		{"the namespace", sales.MayCatalog(tenant.Drop, "lake", []string{"sales"}), true},
		{"a namespace below it", sales.MayCatalog(tenant.Read, "lake", []string{"sales", "eu"}), true},
		{"another namespace", sales.MayCatalog(tenant.Read, "lake", []string{"hr"}), false},
		{"a namespace of the same beginning", sales.MayCatalog(tenant.Read, "lake", []string{"sales2"}), false},
		{"the warehouse of a namespace grant", sales.MayCatalog(tenant.Read, "lake", nil), false},
		{"another warehouse", sales.MayCatalog(tenant.Read, "other", []string{"sales"}), false},
		{"every warehouse", sales.MayCatalog(tenant.Write, "other", []string{"hr"}), true},
		{"purge is more than drop", sales.MayCatalog(tenant.Purge, "lake", []string{"sales"}), false},
		{"a catalog's token at the drive", sales.MayDrive(tenant.Read, "/"), false},
		{"an admin at the drive", admin.MayDrive(tenant.Delete, "/x"), true},
		{"an admin at the catalog", admin.MayCatalog(tenant.Purge, "lake", nil), true},
		{"an operator", operator.MayDrive(tenant.Delete, "/x"), true},
		{"no grants", nobody.MayDrive(tenant.Read, "/") || nobody.MayCatalog(tenant.Read, "lake", nil), false},
	} {
		if c.may != c.want {
			t.Errorf("%s: %v", c.name, c.may)
		}
	}
}

func TestGrantValidate(t *testing.T) {
	t.Parallel()
	read := []tenant.Action{tenant.Read}
	for _, c := range []struct {
		name  string
		grant tenant.Grant
		ok    bool
	}{
		{"admin", tenant.Grant{Admin: true}, true},
		{"the whole drive", tenant.Grant{Drive: "/", Actions: read}, true},
		{"a path", tenant.Grant{Drive: "/a/b c", Actions: read}, true},
		{"a warehouse", tenant.Grant{Warehouse: "w", Actions: []tenant.Action{tenant.Purge}}, true},
		{"a namespace", tenant.Grant{Warehouse: "w", Namespace: []string{"n"}, Actions: read}, true},
		{"nothing", tenant.Grant{}, false},
		{"both halves", tenant.Grant{Drive: "/", Warehouse: "w", Actions: read}, false},
		{"admin of a path", tenant.Grant{Admin: true, Drive: "/a"}, false},
		{"no actions", tenant.Grant{Drive: "/a"}, false},
		{"a catalog's action at the drive", tenant.Grant{Drive: "/a", Actions: []tenant.Action{tenant.Purge}}, false},
		{"a drive's action at the catalog", tenant.Grant{Warehouse: "w", Actions: []tenant.Action{tenant.Delete}}, false},
		{"a namespace of a drive", tenant.Grant{Drive: "/a", Namespace: []string{"n"}, Actions: read}, false},
		{"a relative path", tenant.Grant{Drive: "a", Actions: read}, false},
		{"a trailing slash", tenant.Grant{Drive: "/a/", Actions: read}, false},
		{"a way up", tenant.Grant{Drive: "/a/../b", Actions: read}, false},
	} {
		if err := c.grant.Validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
