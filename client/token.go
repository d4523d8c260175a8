package client

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Grant lets the holder of a token do something: everything in the tenant (Admin), or
// actions below a path of the drive, or actions on a warehouse.
type Grant struct {
	Admin     bool      `json:"admin,omitempty"`
	Drive     string    `json:"drive,omitempty"`     // path; / is all of it
	Warehouse string    `json:"warehouse,omitempty"` // * is every warehouse
	Namespace Namespace `json:"namespace,omitempty"` // with all below it; empty is all
	Actions   []string  `json:"actions,omitempty"`   // drive: read, write, delete; warehouse: read, write, drop, purge
}

// Token is what the server keeps of a token.
type Token struct {
	ID        int64      `json:"id"`
	Name      string     `json:"name"`
	Grants    []Grant    `json:"grants"`
	CreatedBy string     `json:"createdBy"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt"` // nil: never
	RevokedAt *time.Time `json:"revokedAt"` // nil: it is good
}

// NewToken describes a token to be made.
type NewToken struct {
	Name      string
	Grants    []Grant
	ExpiresIn time.Duration // in whole seconds; 0: it does not expire
}

// Tokens reads and changes the tokens of one tenant.
type Tokens struct {
	c    *Client
	path string
}

// Tokens returns the tokens of a tenant; an empty name means default.
func (c *Client) Tokens(tenant string) Tokens {
	return Tokens{c, tenantPath(orDefault(tenant)) + "/tokens"}
}

// List returns all tokens, those that have expired or were revoked too.
func (t Tokens) List(ctx context.Context) ([]Token, error) {
	var body struct {
		Tokens []Token `json:"tokens"`
	}
	_, err := t.c.do(ctx, request{method: http.MethodGet, path: t.path, into: &body})
	return body.Tokens, err
}

// Create makes a token. Its text is told now and never again.
func (t Tokens) Create(ctx context.Context, n NewToken) (token Token, text string, err error) {
	var body struct {
		Token
		Text string `json:"token"`
	}
	if n.ExpiresIn < 0 || n.ExpiresIn%time.Second != 0 { // rounded down, a brief token would be one for ever
		return token, "", fmt.Errorf("client: a token lives for whole seconds, not for %v", n.ExpiresIn)
	}
	_, err = t.c.do(ctx, request{
		method: http.MethodPost, path: t.path, into: &body,
		body: map[string]any{"name": n.Name, "grants": n.Grants, "expiresIn": int64(n.ExpiresIn / time.Second)},
	})
	return body.Token, body.Text, err
}

// Revoke ends a token.
func (t Tokens) Revoke(ctx context.Context, id int64) (token Token, err error) {
	_, err = t.c.do(ctx, request{method: http.MethodDelete, path: t.path + "/" + strconv.FormatInt(id, 10), into: &token})
	return token, err
}
