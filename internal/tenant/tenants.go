package tenant

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// Codes of tenants.
const (
	CodeNoSuchTenant   fault.Code = "NoSuchTenant"
	CodeTenantExists   fault.Code = "TenantExists"
	CodeTenantNotEmpty fault.Code = "TenantNotEmpty"
	CodeTenantClosing  fault.Code = "TenantClosing"
	CodeInvalidName    fault.Code = "InvalidName"
)

// Tenant isolates warehouses, a drive, tokens and jobs.
type Tenant struct {
	ID        ID
	Name      string
	CreatedAt int64 // milliseconds since the Unix epoch by the database's clock
	ClosingAt int64 // 0 unless it is being dropped
}

// Tenants is the one place with SQL on tenants themselves. It is safe for concurrent use.
type Tenants struct {
	db     *sqldb.DB
	tokens *Tokens
}

// NewTenants returns the tenants; tokens are told when one is closed.
func NewTenants(db *sqldb.DB, tokens *Tokens) *Tenants { return &Tenants{db: db, tokens: tokens} }

const (
	addTenant     sqldb.Statement = "INSERT INTO tenants (name, created_at) VALUES (?, {now})"
	tenantColumns                 = "SELECT id, name, created_at, COALESCE(closing_at, 0) FROM tenants "
	tenantByName  sqldb.Statement = tenantColumns + "WHERE name = ?"
	lockTenant    sqldb.Statement = tenantColumns + "WHERE name = ? {for update}"
	allTenants    sqldb.Statement = tenantColumns + "ORDER BY name"
	closeTenant   sqldb.Statement = "UPDATE tenants SET closing_at = COALESCE(closing_at, {now}) WHERE id = ?"
	anyWarehouse  sqldb.Statement = "SELECT name FROM warehouses WHERE tenant_id = ? ORDER BY name LIMIT 1"
	dropTokens    sqldb.Statement = "DELETE FROM tokens WHERE tenant_id = ?"
	dropTenant    sqldb.Statement = "DELETE FROM tenants WHERE id = ?"
)

// checkLabel refuses what could not stand in a path, a log line or an index.
func checkLabel(name string) error {
	switch {
	case name == "" || len(name) > 255:
		return errors.New("it has 1 to 255 bytes")
	case !utf8.ValidString(name):
		return errors.New("it is not UTF-8")
	}
	for _, r := range name {
		if r < ' ' || r == 0x7f || r == '/' || r == '\\' {
			return errors.New("it holds a slash or a control character")
		}
	}
	if name == "." || name == ".." || name == "*" {
		return fmt.Errorf("%q has another meaning", name)
	}
	return nil
}

func noTenant(op string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fault.New(op, fault.NotFound, CodeNoSuchTenant, "the tenant does not exist")
	}
	return err
}

func scanTenant(row scanner) (t Tenant, err error) {
	err = row.Scan(&t.ID, &t.Name, &t.CreatedAt, &t.ClosingAt)
	return t, err
}

// Create makes a tenant; with makes what belongs to it, in the same transaction. Its id is
// never used again.
func (s *Tenants) Create(ctx context.Context, name string, with func(ctx context.Context, tx *sqldb.Tx, id ID) error) (t Tenant, err error) {
	const op = "tenant.Create"
	if err := checkLabel(name); err != nil {
		return t, fault.New(op, fault.Invalid, CodeInvalidName, "the tenant's name: %s", err)
	}
	err = s.db.Tx(ctx, func(tx *sqldb.Tx) error {
		id, err := tx.InsertID(ctx, addTenant, name)
		if s.db.Dialect().Classify(err) == sqldb.ClassUnique {
			return fault.New(op, fault.Conflict, CodeTenantExists, "tenant %q exists", name)
		}
		if err != nil {
			return err
		}
		if err := with(ctx, tx, ID(id)); err != nil {
			return err
		}
		t, err = scanTenant(tx.QueryRow(ctx, tenantByName, name))
		return err
	})
	return t, err
}

// Get returns a tenant by name.
func (s *Tenants) Get(ctx context.Context, name string) (Tenant, error) {
	t, err := scanTenant(s.db.QueryRow(ctx, tenantByName, name))
	return t, noTenant("tenant.Get", err)
}

// List returns all tenants in the order of their names.
func (s *Tenants) List(ctx context.Context) ([]Tenant, error) {
	rows, err := s.db.Query(ctx, allTenants)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Tenant
	for rows.Next() {
		t, err := scanTenant(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, rows.Err()
}

// Close marks a tenant as being dropped: its tokens are dead from now on, here at once and
// on other servers within seconds. with writes, in the same transaction, the job that ends
// it. The default tenant stays.
func (s *Tenants) Close(ctx context.Context, name string, with func(ctx context.Context, tx *sqldb.Tx, t Tenant) error) (t Tenant, err error) {
	t, err = s.locked(ctx, "tenant.Close", name, func(tx *sqldb.Tx, t Tenant) error {
		if _, err := tx.Exec(ctx, closeTenant, int64(t.ID)); err != nil {
			return err
		}
		return with(ctx, tx, t)
	})
	if err == nil {
		s.tokens.forgetTenant(t.ID)
	}
	return t, err
}

// Drop removes a tenant that has nothing any more: no warehouse, and nothing that empty
// knows of, which removes the rest of what belongs to it in the same transaction.
func (s *Tenants) Drop(ctx context.Context, name string, empty func(ctx context.Context, tx *sqldb.Tx, t Tenant) error) (t Tenant, err error) {
	const op = "tenant.Drop"
	t, err = s.locked(ctx, op, name, func(tx *sqldb.Tx, t Tenant) error {
		var warehouse string
		switch err := tx.QueryRow(ctx, anyWarehouse, int64(t.ID)).Scan(&warehouse); {
		case err == nil:
			return fault.New(op, fault.Conflict, CodeTenantNotEmpty, "tenant %q has warehouse %q: drop it first, or drop the tenant with purge", name, warehouse)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		if err := empty(ctx, tx, t); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, dropTokens, int64(t.ID)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, dropTenant, int64(t.ID))
		return err
	})
	if err == nil {
		s.tokens.forgetTenant(t.ID)
	}
	return t, err
}

// locked runs do in a transaction that holds the tenant's row.
func (s *Tenants) locked(ctx context.Context, op, name string, do func(tx *sqldb.Tx, t Tenant) error) (t Tenant, err error) {
	if name == Default {
		return t, fault.New(op, fault.Conflict, CodeTenantNotEmpty, "the default tenant belongs to the server and stays")
	}
	err = s.db.Tx(ctx, func(tx *sqldb.Tx) error {
		var err error
		if t, err = scanTenant(tx.QueryRow(ctx, lockTenant, name)); err != nil {
			return noTenant(op, err)
		}
		return do(tx, t)
	})
	return t, err
}
