package tenant

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// Codes of tokens.
const (
	CodeNoSuchToken  fault.Code = "NoSuchToken"
	CodeInvalidToken fault.Code = "InvalidToken"
)

// TokenID is the key of a token.
type TokenID int64

// Token is what is known of a token; its text is not.
type Token struct {
	ID        TokenID
	Name      string // of the principal that it stands for
	Grants    []Grant
	CreatedBy string
	CreatedAt int64 // milliseconds since the Unix epoch by the database's clock, as the others
	ExpiresAt int64 // 0: never
	RevokedAt int64 // 0: it was not
}

// Tokens is the one place with SQL on tokens. It keeps who a token stands for for a
// moment, so a revoked or expired one may be taken for that long by other servers; the
// server that revoked it takes it no more. It is safe for concurrent use.
type Tokens struct {
	db    *sqldb.DB
	keep  time.Duration
	mu    sync.Mutex
	known map[string]known // by hash
	ended int64            // how often something was forgotten: an answer from before is not kept
}

type known struct {
	principal *Principal
	until     time.Time
}

const (
	keepToken = 2 * time.Second
	mostKnown = 10_000
)

// NewTokens returns the tokens of all tenants.
func NewTokens(db *sqldb.DB) *Tokens {
	return &Tokens{db: db, keep: keepToken, known: map[string]known{}}
}

const (
	// Where the statistics say that there are hardly any rows, PostgreSQL would merge a plain
	// join of the two tables, and read both for one token.
	findToken sqldb.Statement = `SELECT t.id, t.name, t.grants, COALESCE(t.expires_at - {now}, -1), n.id, n.name, n.created_at FROM tokens t
		{on postgres}CROSS JOIN LATERAL (SELECT id, name, created_at, closing_at FROM tenants WHERE id = t.tenant_id LIMIT 1) n{else}
		JOIN tenants n ON n.id = t.tenant_id{end}
		WHERE t.hash = ? AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > {now}) AND n.closing_at IS NULL`
	insertToken sqldb.Statement = `INSERT INTO tokens (tenant_id, name, hash, grants, created_by, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, {now}, {now} + ?)`
	openTenant sqldb.Statement = "SELECT closing_at FROM tenants WHERE id = ? {for share}"

	tokenColumns                 = "SELECT id, name, grants, created_by, created_at, COALESCE(expires_at, 0), COALESCE(revoked_at, 0) FROM tokens "
	listTokens   sqldb.Statement = tokenColumns + "WHERE tenant_id = ? ORDER BY id"
	oneToken     sqldb.Statement = tokenColumns + "WHERE tenant_id = ? AND id = ?"
	revokeToken  sqldb.Statement = "UPDATE tokens SET revoked_at = COALESCE(revoked_at, {now}) WHERE tenant_id = ? AND id = ?"
	hashOfToken  sqldb.Statement = "SELECT hash FROM tokens WHERE tenant_id = ? AND id = ?"
)

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Authenticate returns who a token stands for; fault.Unauthenticated when it is not known,
// was revoked, has expired, or its tenant is being dropped.
func (t *Tokens) Authenticate(ctx context.Context, token string) (*Principal, error) {
	hash := hashOf(token)
	t.mu.Lock()
	k, ok := t.known[hash]
	ended := t.ended
	t.mu.Unlock()
	if ok && time.Now().Before(k.until) {
		return k.principal, nil
	}
	asked := time.Now()
	p := &Principal{}
	var id TokenID
	var grants string
	var left int64
	err := t.db.QueryRow(ctx, findToken, hash).Scan(&id, &p.Name, &grants, &left, &p.Tenant, &p.TenantName, &p.Since)
	if errors.Is(err, sql.ErrNoRows) {
		t.drop(hash)
		return nil, fault.New("tenant.Authenticate", fault.Unauthenticated, "", "the token is not known, or not any more")
	}
	if err == nil {
		err = json.Unmarshal([]byte(grants), &p.Grants)
	}
	if err != nil {
		return nil, fmt.Errorf("tenant: authenticate: %w", err)
	}
	keep := t.keep
	if left >= 0 {
		keep = min(keep, time.Duration(left-1)*time.Millisecond) // the database's clock is rounded down
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= mostKnown {
		clear(t.known)
	}
	if t.ended == ended { // else it may have been revoked since it was read
		t.known[hash] = known{p, asked.Add(keep)}
	}
	return p, nil
}

// drop lets go of what is known of a token that the database does not know.
func (t *Tokens) drop(hash string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, hash)
}

func (t *Tokens) forget(hash string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, hash)
	t.ended++
}

// forgetTenant drops what is known of all tokens of a tenant.
func (t *Tokens) forgetTenant(id ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for hash, k := range t.known {
		if k.principal.Tenant == id {
			delete(t.known, hash)
		}
	}
	t.ended++
}

// NewToken is a token to be made.
type NewToken struct {
	Name     string // of the principal, 1 to 255 bytes
	Grants   []Grant
	Lifetime time.Duration // 0: it never expires
	By       string
}

// reserved are the names of principals that are no token's: what stands in rows and audit
// lines must not be mistaken for them.
var reserved = []string{"admin", "closing"}

// Create makes a token and returns its text, which nobody can read again.
func (t *Tokens) Create(ctx context.Context, tenant ID, n NewToken) (token Token, text string, err error) {
	invalid := func(format string, args ...any) (Token, string, error) {
		return Token{}, "", fault.New("tenant.CreateToken", fault.Invalid, CodeInvalidToken, format, args...)
	}
	if err := checkLabel(n.Name); err != nil {
		return invalid("the token's name: %s", err)
	}
	if slices.Contains(reserved, n.Name) {
		return invalid("the name %q is the server's own", n.Name)
	}
	if len(n.Grants) == 0 {
		return invalid("a token without grants is good for nothing")
	}
	for _, g := range n.Grants {
		if err := g.Validate(); err != nil {
			return Token{}, "", err
		}
	}
	if n.Lifetime < 0 {
		return invalid("a token cannot have expired before it is made")
	}
	grants, err := json.Marshal(n.Grants)
	if err != nil {
		return Token{}, "", err
	}
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return Token{}, "", err
	}
	text = "lethe_" + base64.RawURLEncoding.EncodeToString(raw)
	var lifetime any
	if n.Lifetime > 0 {
		lifetime = n.Lifetime.Milliseconds()
	}
	err = t.db.Tx(ctx, func(tx *sqldb.Tx) error {
		var closing sql.NullInt64
		if err := tx.QueryRow(ctx, openTenant, int64(tenant)).Scan(&closing); err != nil {
			return noTenant("tenant.CreateToken", err)
		}
		if closing.Valid {
			return fault.New("tenant.CreateToken", fault.Conflict, CodeTenantClosing, "the tenant is being dropped")
		}
		id, err := tx.InsertID(ctx, insertToken, int64(tenant), n.Name, hashOf(text), string(grants), n.By, lifetime)
		if err != nil {
			return err
		}
		token, err = scanToken(tx.QueryRow(ctx, oneToken, int64(tenant), id))
		return err
	})
	if err != nil {
		return Token{}, "", fault.E("tenant.CreateToken", fault.KindOf(err), err)
	}
	return token, text, nil
}

func scanToken(row scanner) (t Token, err error) {
	var grants string
	if err := row.Scan(&t.ID, &t.Name, &grants, &t.CreatedBy, &t.CreatedAt, &t.ExpiresAt, &t.RevokedAt); err != nil {
		return t, err
	}
	return t, json.Unmarshal([]byte(grants), &t.Grants)
}

// List returns a tenant's tokens, oldest first, the revoked and expired ones too.
func (t *Tokens) List(ctx context.Context, tenant ID) ([]Token, error) {
	rows, err := t.db.Query(ctx, listTokens, int64(tenant))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Token
	for rows.Next() {
		token, err := scanToken(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, token)
	}
	return list, rows.Err()
}

// Revoke ends a token, here at once and on other servers within seconds. Twice is no
// error.
func (t *Tokens) Revoke(ctx context.Context, tenant ID, id TokenID) (token Token, err error) {
	var hash string
	err = t.db.Tx(ctx, func(tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, revokeToken, int64(tenant), int64(id)); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, hashOfToken, int64(tenant), int64(id)).Scan(&hash); err != nil {
			return err
		}
		var err error
		token, err = scanToken(tx.QueryRow(ctx, oneToken, int64(tenant), int64(id)))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return token, fault.New("tenant.Revoke", fault.NotFound, CodeNoSuchToken, "token %d does not exist", id)
	}
	if err == nil {
		t.forget(hash)
	}
	return token, err
}
