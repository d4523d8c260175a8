package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

// authenticator knows the admin's token, by its hash, and asks the tenants for others.
type authenticator struct {
	hash [sha256.Size]byte
	open bool // authentication is switched off
	// tenant and tokens are told after the tenants were opened.
	tenant func() tenant.ID
	tokens *tenant.Tokens
}

// openAuth reads the admin's token, and makes one when there is none.
func (s *server) openAuth() (*authenticator, error) {
	a := &authenticator{open: s.set.Authentication == "none", tenant: func() tenant.ID { return s.tenants.Tenant() }}
	s.started.NoAuth = a.open
	if a.open {
		return a, nil
	}
	token, err := s.set.AdminToken(s.cfg.Lookup)
	if errors.Is(err, fs.ErrNotExist) {
		if token, err = makeToken(s.set.AdminTokenPath()); err != nil {
			return nil, fmt.Errorf("server: make the admin token: %w", err)
		}
		s.started.TokenMade = true
	}
	if err != nil {
		return nil, err
	}
	if env, ok := s.cfg.Lookup(AdminTokenVariable); !ok || env == "" {
		if s.started.TokenFile, err = filepath.Abs(s.set.AdminTokenPath()); err != nil {
			return nil, err
		}
	}
	a.hash = sha256.Sum256([]byte(token))
	return a, nil
}

// makeToken writes a new token that only its owner can read. It never overwrites one.
func makeToken(path string) (string, error) {
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	token := base64.RawURLEncoding.EncodeToString(raw)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(token + "\n")
	return token, errors.Join(err, f.Sync(), f.Close())
}

// principal returns who a bearer token stands for.
func (a *authenticator) principal(ctx context.Context, token string) (*tenant.Principal, error) {
	hash := sha256.Sum256([]byte(token))
	if !a.open && subtle.ConstantTimeCompare(hash[:], a.hash[:]) != 1 {
		if token == "" {
			return nil, fault.New("server.principal", fault.Unauthenticated, "", "a bearer token is required")
		}
		return a.tokens.Authenticate(ctx, token)
	}
	return &tenant.Principal{Name: "admin", Tenant: a.tenant(), TenantName: tenant.Default, Operator: true}, nil
}

// refuse answers a request whose caller is not known, or cannot be asked for now.
func refuse(w http.ResponseWriter, id string, err error) {
	status, code, message := http.StatusServiceUnavailable, "Busy", "who is asking cannot be told now"
	if fault.KindOf(err) == fault.Unauthenticated {
		status, code, message = http.StatusUnauthorized, "Unauthenticated", "a known bearer token is required"
		w.Header().Set("WWW-Authenticate", "Bearer")
	} else {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"error":{"code":%q,"message":%q,"requestId":%q}}`, code, message, id) // the client may be gone
}

// bearer is the token of a request, empty when there is none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// still asks whether the token of a request that goes on is known yet.
func (a *authenticator) still(r *http.Request) error {
	_, err := a.principal(r.Context(), bearer(r))
	return err
}

// caller is what the middleware found out about a request.
type caller struct {
	principal *tenant.Principal
	request   string
}

type callerKey struct{}

// middleware refuses requests without a known bearer token, and tells the others who
// they are.
func (a *authenticator) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := uuid.NewString()
		w.Header().Set("X-Request-Id", id)
		p, err := a.principal(r.Context(), bearer(r))
		if err != nil {
			refuse(w, id, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller{p, id})))
	})
}

// principalOf, tenantOf and requestIDOf return what the middleware found.
func principalOf(ctx context.Context) string {
	if c, ok := ctx.Value(callerKey{}).(caller); ok {
		return c.principal.Name
	}
	return ""
}

// callerOf is nil outside a request.
func callerOf(ctx context.Context) *tenant.Principal {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c.principal
}

func tenantOf(ctx context.Context) string {
	if c, ok := ctx.Value(callerKey{}).(caller); ok {
		return c.principal.TenantName
	}
	return ""
}

func requestIDOf(ctx context.Context) string {
	if c, ok := ctx.Value(callerKey{}).(caller); ok {
		return c.request
	}
	return ""
}
