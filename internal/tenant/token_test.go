package tenant_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/internal/tenant"
)

// rooms is two tenants on one database, and two servers that know tokens.
type rooms struct {
	db            *sqldb.DB
	tokens, other *tenant.Tokens
	tenants       *tenant.Tenants
	acme, umbra   tenant.Tenant
}

func eachTenants(t *testing.T, fn func(t *testing.T, r rooms)) {
	t.Helper()
	sqldbtest.Each(t, []sqldb.Migrations{tenant.Migrations}, func(t *testing.T, db *sqldb.DB) {
		r := rooms{db: db, tokens: tenant.NewTokens(db), other: tenant.NewTokens(db)}
		r.tenants = tenant.NewTenants(db, r.tokens)
		r.acme, r.umbra = r.create(t, "acme"), r.create(t, "umbra")
		fn(t, r)
	})
}

func (r rooms) create(t *testing.T, name string) tenant.Tenant {
	t.Helper()
	made, err := r.tenants.Create(t.Context(), name, func(context.Context, *sqldb.Tx, tenant.ID) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (r rooms) token(t *testing.T, of tenant.Tenant, lifetime time.Duration) (tenant.Token, string) {
	t.Helper()
	token, text, err := r.tokens.Create(t.Context(), of.ID, tenant.NewToken{Name: "etl", Grants: []tenant.Grant{{Drive: "/in", Actions: []tenant.Action{tenant.Read}}}, Lifetime: lifetime, By: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	return token, text
}

func known(t *testing.T, tokens *tenant.Tokens, text string) bool {
	t.Helper()
	_, err := tokens.Authenticate(t.Context(), text)
	if err != nil && fault.KindOf(err) != fault.Unauthenticated {
		t.Fatal(err)
	}
	return err == nil
}

func TestTokens(t *testing.T) {
	t.Parallel()
	eachTenants(t, func(t *testing.T, r rooms) {
		token, text := r.token(t, r.acme, 0)
		_, foreign := r.token(t, r.umbra, 0)
		p, err := r.tokens.Authenticate(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		want := &tenant.Principal{Name: "etl", Tenant: r.acme.ID, TenantName: "acme", Since: r.acme.CreatedAt, Grants: token.Grants}
		if diff := cmp.Diff(want, p); diff != "" {
			t.Error(diff)
		}
		for _, wrong := range []string{"", "x", text + "x", strings.ToUpper(text), "' OR 1=1 --"} {
			if known(t, r.tokens, wrong) {
				t.Errorf("%q is taken for a token", wrong)
			}
		}
		// The database holds no token's text.
		var texts int
		if err := r.db.QueryRow(t.Context(), "SELECT COUNT(*) FROM tokens WHERE hash = ? OR name = ? OR grants = ?", text, text, text).Scan(&texts); err != nil || texts != 0 {
			t.Errorf("the text is in %d rows, %v", texts, err)
		}
		// Another tenant cannot end it, its own can, and twice is no error.
		if _, err := r.tokens.Revoke(t.Context(), r.umbra.ID, token.ID); fault.KindOf(err) != fault.NotFound {
			t.Errorf("revoked by another tenant: %v", err)
		}
		for range 2 {
			if ended, err := r.tokens.Revoke(t.Context(), r.acme.ID, token.ID); err != nil || ended.RevokedAt == 0 {
				t.Errorf("revoke: %+v, %v", ended, err)
			}
		}
		if known(t, r.tokens, text) || known(t, r.other, text) {
			t.Error("a revoked token is known")
		}
		if !known(t, r.tokens, foreign) {
			t.Error("the other tenant's token went with it")
		}
		list, err := r.tokens.List(t.Context(), r.acme.ID)
		if err != nil || len(list) != 1 || list[0].ID != token.ID || list[0].CreatedBy != "ann" {
			t.Errorf("list: %+v, %v", list, err)
		}
	})
}

func TestTokenExpires(t *testing.T) {
	t.Parallel()
	eachTenants(t, func(t *testing.T, r rooms) {
		token, text := r.token(t, r.acme, time.Hour)
		if got := time.Duration(token.ExpiresAt-token.CreatedAt) * time.Millisecond; got < time.Hour-time.Minute || got > time.Hour+time.Minute {
			t.Errorf("it lives for %v", got)
		}
		if !known(t, r.tokens, text) {
			t.Error("a new token is not known")
		}
		if _, err := r.db.Exec(t.Context(), "UPDATE tokens SET expires_at = created_at - 1"); err != nil {
			t.Fatal(err)
		}
		if known(t, r.other, text) {
			t.Error("an expired token is known")
		}
		// A server that knew it knows it no longer than it lives.
		over := func(id int64) (over bool) {
			if err := r.db.QueryRow(t.Context(), "SELECT CASE WHEN expires_at <= {now} THEN 1 ELSE 0 END FROM tokens WHERE id = ?", id).Scan(&over); err != nil {
				t.Fatal(err)
			}
			return over
		}
		var brief tenant.Token
		for life, seen := 200*time.Millisecond, false; !seen; life *= 4 { // on a slow machine a short life may be over first
			brief, text = r.token(t, r.acme, life)
			if seen = known(t, r.tokens, text); !seen && !over(int64(brief.ID)) {
				t.Fatal("a new token is not known")
			}
		}
		for !over(int64(brief.ID)) { // it passes
		}
		if known(t, r.tokens, text) {
			t.Error("a token that was known outlives its time")
		}
	})
}

func TestTokenRefused(t *testing.T) {
	t.Parallel()
	eachTenants(t, func(t *testing.T, r rooms) {
		admin := []tenant.Grant{{Admin: true}}
		for _, c := range []struct {
			name string
			of   tenant.ID
			new  tenant.NewToken
			kind fault.Kind
		}{
			{"without a name", r.acme.ID, tenant.NewToken{Grants: admin}, fault.Invalid},
			{"a name with a line break", r.acme.ID, tenant.NewToken{Name: "a\nb", Grants: admin}, fault.Invalid},
			{"the operator's name", r.acme.ID, tenant.NewToken{Name: "admin", Grants: admin}, fault.Invalid},
			{"without grants", r.acme.ID, tenant.NewToken{Name: "a"}, fault.Invalid},
			{"a grant that means nothing", r.acme.ID, tenant.NewToken{Name: "a", Grants: []tenant.Grant{{Drive: "/"}}}, fault.Invalid},
			{"a life that is over", r.acme.ID, tenant.NewToken{Name: "a", Grants: admin, Lifetime: -1}, fault.Invalid},
			{"no tenant", 999, tenant.NewToken{Name: "a", Grants: admin}, fault.NotFound},
		} {
			if _, _, err := r.tokens.Create(t.Context(), c.of, c.new); fault.KindOf(err) != c.kind {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	})
}

func TestTenants(t *testing.T) {
	t.Parallel()
	eachTenants(t, func(t *testing.T, r rooms) {
		none := func(context.Context, *sqldb.Tx, tenant.ID) error { return nil }
		if _, err := r.tenants.Create(t.Context(), "acme", none); !fault.Is(err, tenant.CodeTenantExists) {
			t.Errorf("a second acme: %v", err)
		}
		for _, name := range []string{"", "a/b", "a\x00", "..", strings.Repeat("x", 256), "\xff"} {
			if _, err := r.tenants.Create(t.Context(), name, none); fault.KindOf(err) != fault.Invalid {
				t.Errorf("name %q: %v", name, err)
			}
		}
		broken := errors.New("no drive")
		if _, err := r.tenants.Create(t.Context(), "half", func(context.Context, *sqldb.Tx, tenant.ID) error { return broken }); !errors.Is(err, broken) {
			t.Error(err)
		}
		if _, err := r.tenants.Get(t.Context(), "half"); !fault.Is(err, tenant.CodeNoSuchTenant) {
			t.Errorf("half a tenant is there: %v", err)
		}
		list, err := r.tenants.List(t.Context())
		if err != nil || len(list) != 2 || list[0].Name != "acme" || list[1].Name != "umbra" {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

func TestDropTenant(t *testing.T) {
	t.Parallel()
	eachTenants(t, func(t *testing.T, r rooms) {
		_, text := r.token(t, r.acme, 0)
		_, foreign := r.token(t, r.umbra, 0)
		if !known(t, r.tokens, text) {
			t.Fatal("a new token is not known")
		}
		empty := func(context.Context, *sqldb.Tx, tenant.Tenant) error { return nil }
		if _, err := r.tenants.Drop(t.Context(), tenant.Default, empty); fault.KindOf(err) != fault.Conflict {
			t.Errorf("the default tenant: %v", err)
		}
		if _, err := r.db.Exec(t.Context(), "INSERT INTO warehouses (tenant_id, name, root, created_at) VALUES (?, 'lake', 's3://b', 0)", int64(r.acme.ID)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.tenants.Drop(t.Context(), "acme", empty); !fault.Is(err, tenant.CodeTenantNotEmpty) {
			t.Errorf("with a warehouse: %v", err)
		}
		if _, err := r.db.Exec(t.Context(), "DELETE FROM warehouses"); err != nil {
			t.Fatal(err)
		}
		full := fault.New("test", fault.Conflict, tenant.CodeTenantNotEmpty, "files")
		if _, err := r.tenants.Drop(t.Context(), "acme", func(context.Context, *sqldb.Tx, tenant.Tenant) error { return full }); !errors.Is(err, full) {
			t.Errorf("with files: %v", err)
		}
		// Closed, its tokens are dead and no new ones are made.
		if closed, err := r.tenants.Close(t.Context(), "acme", empty); err != nil || closed.ID != r.acme.ID {
			t.Errorf("close: %+v, %v", closed, err)
		}
		if known(t, r.tokens, text) || known(t, r.other, text) {
			t.Error("the token of a closed tenant is known")
		}
		if _, _, err := r.tokens.Create(t.Context(), r.acme.ID, tenant.NewToken{Name: "a", Grants: []tenant.Grant{{Admin: true}}}); !fault.Is(err, tenant.CodeTenantClosing) {
			t.Errorf("a token for a closed tenant: %v", err)
		}
		if _, err := r.tenants.Drop(t.Context(), "acme", empty); err != nil {
			t.Error(err)
		}
		if _, err := r.tenants.Get(t.Context(), "acme"); !fault.Is(err, tenant.CodeNoSuchTenant) {
			t.Errorf("it is still there: %v", err)
		}
		if !known(t, r.tokens, foreign) {
			t.Error("the other tenant's token went with it")
		}
		if again := r.create(t, "acme"); again.ID == r.acme.ID {
			t.Error("the id was used again: what it owned would be another's")
		}
	})
}

// TestNameOfAnother: a tenant that has the name of one before it owns nothing of that one.
func TestNameOfAnother(t *testing.T) {
	t.Parallel()
	eachTenants(t, func(t *testing.T, r rooms) {
		_, text := r.token(t, r.acme, 0)
		p, err := r.tokens.Authenticate(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		if p.Since != r.acme.CreatedAt || !p.Owns("acme", r.acme.CreatedAt) {
			t.Errorf("since %d, made at %d", p.Since, r.acme.CreatedAt)
		}
		if p.Owns("acme", r.acme.CreatedAt-1) || p.Owns("umbra", r.acme.CreatedAt+1) {
			t.Error("owns what was another's")
		}
	})
}
