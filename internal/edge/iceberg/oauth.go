package iceberg

import (
	"net/http"
	"strings"
)

// token answers POST /v1/oauth/tokens for clients that insist on a token exchange
// (spec: getToken, deprecated): the client's secret is its token.
func (e *edge) token(c *call) {
	deny := func(status int, code, text string) {
		_ = e.reply(c, status, map[string]string{"error": code, "error_description": text}) // a map of strings encodes
	}
	if err := c.r.ParseForm(); err != nil {
		deny(http.StatusBadRequest, "invalid_request", "the form cannot be read")
		return
	}
	form := c.r.PostForm
	secret := form.Get("client_secret")
	switch grant := form.Get("grant_type"); grant {
	case "client_credentials":
		if _, password, ok := c.r.BasicAuth(); ok && secret == "" {
			secret = password
		}
	case "urn:ietf:params:oauth:grant-type:token-exchange":
		secret = form.Get("subject_token") // a refresh: the token stays the same
	default:
		deny(http.StatusBadRequest, "unsupported_grant_type", "client_credentials is offered")
		return
	}
	if _, err := e.Authenticate(c.r.Context(), strings.TrimSpace(secret)); secret == "" || err != nil {
		deny(http.StatusUnauthorized, "invalid_client", "unknown client")
		return
	}
	c.w.Header().Set("Cache-Control", "no-store")
	_ = e.reply(c, http.StatusOK, map[string]any{
		"access_token": secret, "token_type": "bearer", "expires_in": 3600,
		"issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
	})
}
