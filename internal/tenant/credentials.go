package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lethe-project/lethe/internal/secret"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// CredentialType says with whose rights storage is used.
type CredentialType string

// The types.
const (
	CredentialsDefault CredentialType = "default"     // what the server's surroundings give it
	CredentialsStatic  CredentialType = "static"      // a key
	CredentialsRole    CredentialType = "assume-role" // a role, by the rights of the surroundings
)

// Secret is a text that does not show itself.
type Secret = secret.Text

// Credentials of a warehouse's storage. The zero value is the default type.
type Credentials struct {
	Type            CredentialType
	AccessKeyID     string // static
	SecretAccessKey Secret
	SessionToken    Secret // may be empty
	RoleARN         string // assume-role
	ExternalID      Secret // may be empty
	SessionName     string // may be empty
	STSEndpoint     string // may be empty
}

// Shown is what of credentials may be shown.
type Shown struct {
	Type        CredentialType
	AccessKeyID string // its last 4 characters
}

func (c Credentials) shown() Shown {
	s := Shown{Type: c.Type}
	if s.Type == "" {
		s.Type = CredentialsDefault
	}
	if n := len(c.AccessKeyID); n > 0 {
		s.AccessKeyID = "…" + c.AccessKeyID[max(n/2, n-4):] // never most of a short one
	}
	return s
}

// sealed is the plain text that is encrypted.
type sealed struct {
	Type            CredentialType `json:"type"`
	AccessKeyID     string         `json:"accessKeyId,omitempty"`
	SecretAccessKey string         `json:"secretAccessKey,omitempty"`
	SessionToken    string         `json:"sessionToken,omitempty"`
	RoleARN         string         `json:"roleArn,omitempty"`
	ExternalID      string         `json:"externalId,omitempty"`
	SessionName     string         `json:"sessionName,omitempty"`
	STSEndpoint     string         `json:"stsEndpoint,omitempty"`
}

func binding(t ID, w WarehouseID) secret.Binding {
	return secret.Binding{Tenant: int64(t), Warehouse: int64(w), Purpose: "storage credentials"}
}

func (c Credentials) seal(keys *secret.Ring, at secret.Binding) (secret.KeyID, []byte, error) {
	plain, err := json.Marshal(sealed{
		c.Type, c.AccessKeyID, c.SecretAccessKey.Reveal(), c.SessionToken.Reveal(), c.RoleARN, c.ExternalID.Reveal(), c.SessionName, c.STSEndpoint,
	})
	if err != nil {
		return "", nil, err
	}
	id, ciphertext := keys.Seal(plain, at)
	return id, ciphertext, nil
}

// errDamaged says that what was decrypted is no credentials; json's own error might show
// a piece of it.
var errDamaged = errors.New("tenant: the decrypted credentials cannot be read")

func unseal(keys *secret.Ring, id secret.KeyID, ciphertext []byte, at secret.Binding) (Credentials, error) {
	plain, err := keys.Open(id, ciphertext, at)
	if err != nil {
		return Credentials{}, err
	}
	var s sealed
	if json.Unmarshal(plain, &s) != nil {
		return Credentials{}, errDamaged
	}
	return Credentials{
		s.Type, s.AccessKeyID, secret.NewText(s.SecretAccessKey), secret.NewText(s.SessionToken), s.RoleARN, secret.NewText(s.ExternalID), s.SessionName, s.STSEndpoint,
	}, nil
}

const (
	insertCredentials sqldb.Statement = "INSERT INTO warehouse_credentials (warehouse_id, key_id, ciphertext, created_at, updated_at) VALUES (?, ?, ?, {now}, {now})"
	updateCredentials sqldb.Statement = "UPDATE warehouse_credentials SET key_id = ?, ciphertext = ?, updated_at = {now} WHERE id = ? AND warehouse_id = ?"
	deleteCredentials sqldb.Statement = "DELETE FROM warehouse_credentials WHERE warehouse_id = ?"
	allCredentials    sqldb.Statement = `SELECT c.id, c.key_id, c.ciphertext, w.id, w.tenant_id, w.name FROM warehouse_credentials c
		JOIN warehouses w ON w.id = c.warehouse_id WHERE c.id > ? ORDER BY c.id LIMIT 500`
	lockCredentials sqldb.Statement = "SELECT key_id, ciphertext FROM warehouse_credentials WHERE id = ? {for update}"
)

// storeCredentials writes the credentials of a warehouse, whose row the caller holds,
// over those with the key before, if there are any. Default ones are no row: the key is 0.
func (d *Directory) storeCredentials(ctx context.Context, tx *sqldb.Tx, t ID, w WarehouseID, before int64, c Credentials) (int64, error) {
	if c.Type == CredentialsDefault || c.Type == "" {
		_, err := tx.Exec(ctx, deleteCredentials, w)
		return 0, err
	}
	key, ciphertext, err := c.seal(d.cfg.Keys, binding(t, w))
	if err != nil {
		return 0, err
	}
	if before == 0 {
		return tx.InsertID(ctx, insertCredentials, w, string(key), ciphertext)
	}
	_, err = tx.Exec(ctx, updateCredentials, string(key), ciphertext, before, w)
	return before, err
}

// storedCredentials is one row.
type storedCredentials struct {
	id         int64
	key        secret.KeyID
	ciphertext []byte
	warehouse  WarehouseID
	tenant     ID
	name       string
}

// checkCredentials opens everything that is stored, so that a server with the wrong keys
// does not start, and encrypts anew what is under another key than the first.
func (d *Directory) checkCredentials(ctx context.Context) error {
	var old []storedCredentials
	for after := int64(0); ; {
		page, err := d.credentialsAfter(ctx, after)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, s := range page {
			after = s.id
			if d.cfg.Keys == nil {
				return fmt.Errorf("warehouse %q has stored credentials under key %s, and there is no key", s.name, s.key)
			}
			if _, err := unseal(d.cfg.Keys, s.key, s.ciphertext, binding(s.tenant, s.warehouse)); err != nil {
				return fmt.Errorf("credentials of warehouse %q: %w", s.name, err)
			}
			if s.key != d.cfg.Keys.Current() {
				old = append(old, s)
			}
		}
	}
	for _, s := range old {
		if err := d.reseal(ctx, s); err != nil {
			return fmt.Errorf("credentials of warehouse %q: encrypt anew: %w", s.name, err)
		}
	}
	if len(old) > 0 {
		d.cfg.Logger.InfoContext(ctx, "credentials encrypted anew", "count", len(old), "key", string(d.cfg.Keys.Current()))
	}
	return nil
}

func (d *Directory) credentialsAfter(ctx context.Context, after int64) (page []storedCredentials, err error) {
	rows, err := d.db.Query(ctx, allCredentials, after)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var s storedCredentials
		if err := rows.Scan(&s.id, &s.key, &s.ciphertext, &s.warehouse, &s.tenant, &s.name); err != nil {
			return nil, err
		}
		page = append(page, s)
	}
	return page, rows.Err()
}

// reseal moves one row to the first key, whatever it holds by now.
func (d *Directory) reseal(ctx context.Context, s storedCredentials) error {
	return d.db.Tx(ctx, func(tx *sqldb.Tx) error {
		var key secret.KeyID
		var ciphertext []byte
		err := tx.QueryRow(ctx, lockCredentials, s.id).Scan(&key, &ciphertext)
		if gone(err) || (err == nil && key == d.cfg.Keys.Current()) {
			return nil
		}
		if err != nil {
			return err
		}
		at := binding(s.tenant, s.warehouse)
		c, err := unseal(d.cfg.Keys, key, ciphertext, at)
		if err != nil {
			return err
		}
		if key, ciphertext, err = c.seal(d.cfg.Keys, at); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, updateCredentials, string(key), ciphertext, s.id, s.warehouse)
		return err
	}, sqldb.Confirm(func(context.Context, *sqldb.Tx) (bool, error) { return false, nil })) // sealing twice is sealing once
}
