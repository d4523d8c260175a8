package tenant_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/secret"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/internal/tenant"
)

func keyIDs(t *testing.T, db *sqldb.DB) string {
	t.Helper()
	rows, err := db.Query(t.Context(), "SELECT key_id, ciphertext FROM warehouse_credentials ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		var ciphertext []byte
		if err := rows.Scan(&id, &ciphertext); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(ciphertext, []byte(plain)) || bytes.Contains(ciphertext, []byte("AKIA")) {
			t.Error("credentials are stored in the clear")
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(ids, " ")
}

// A new key is added, moved to the top, and the old one taken away; credentials are
// encrypted anew in between, and a server without the key they need does not start.
func TestRotation(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, onlyTenant, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		start := func(keys string) (*house, error) { return tryOpen(t, db, keys, time.Hour) }
		h := must[*house](t)(start(key1))
		must[tenant.Info](t)(h.Create(ctx, h.Tenant(), lake()))
		second := tenant.Spec{Name: "role", Storage: tenant.StorageSpec{URL: "s3://role"}, Credentials: tenant.Credentials{
			Type: tenant.CredentialsRole, RoleARN: "arn:aws:iam::1:role/x", ExternalID: secret.NewText(plain), SessionName: "s", STSEndpoint: "https://sts",
		}}
		must[tenant.Info](t)(h.Create(ctx, h.Tenant(), second))

		for _, step := range []struct {
			keys    string
			refused error
			rows    string
		}{
			{key1, nil, "k1 k1"},
			{key2, secret.ErrNoKey, "k1 k1"},
			{strings.Replace(key2, "k2", "k1", 1), secret.ErrDamaged, "k1 k1"},
			{key1 + "\n" + key2, nil, "k1 k1"}, // everywhere, before it is used
			{key2 + "\n" + key1, nil, "k2 k2"},
			{key1, secret.ErrNoKey, "k2 k2"},
			{key2, nil, "k2 k2"},
		} {
			h, err := start(step.keys)
			if !errors.Is(err, step.refused) || (step.refused == nil) != (err == nil) {
				t.Fatalf("with %.2s first: %v, want %v", step.keys, err, step.refused)
			}
			if err != nil {
				if !strings.Contains(err.Error(), strings.Fields(step.rows)[0]) || strings.Contains(err.Error(), plain) || strings.Contains(err.Error(), "AAAA") {
					t.Errorf("the message does not name the key, or shows a secret: %v", err)
				}
			} else {
				must[*tenant.Warehouse](t)(h.Warehouse(ctx, h.Tenant(), "role"))
				if got := must[tenant.Credentials](t)(h.stores.current(ctx)); got != second.Credentials {
					t.Errorf("the credentials changed: %v", got.Type)
				}
			}
			if got := keyIDs(t, db); got != step.rows {
				t.Errorf("with %.2s first the rows are under %q, want %q", step.keys, got, step.rows)
			}
		}
	})
}

// Whoever can write to the database cannot give one warehouse another one's credentials.
func TestMovedCiphertext(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, onlyTenant, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		h := open(t, db)
		must[tenant.Info](t)(h.Create(ctx, h.Tenant(), lake()))
		other := tenant.Spec{Name: "other", Storage: tenant.StorageSpec{URL: "s3://other"}, Credentials: static("AKIAOTHER")}
		must[tenant.Info](t)(h.Create(ctx, another(t, db), other))
		var theirs []byte
		if err := db.QueryRow(ctx, "SELECT ciphertext FROM warehouse_credentials ORDER BY id DESC LIMIT 1").Scan(&theirs); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(ctx, "UPDATE warehouse_credentials SET ciphertext = ?", theirs); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Warehouse(ctx, h.Tenant(), "lake"); !errors.Is(err, secret.ErrDamaged) || !blob.ClassOf(err).Outage() {
			t.Errorf("opened with another tenant's credentials: %v", err)
		}
		if _, err := tryOpen(t, db, key1, time.Hour); !errors.Is(err, secret.ErrDamaged) {
			t.Errorf("started: %v", err)
		}
	})
}
