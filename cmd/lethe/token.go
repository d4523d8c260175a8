package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lethe-project/lethe/client"
)

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Make a token and print it, this once."`
	List   tokenListCmd   `cmd:"" name:"ls" help:"List the tokens of a tenant."`
	Revoke tokenRevokeCmd `cmd:"" help:"End a token."`
}

// ofTenant are the flags of commands on the tokens of a tenant.
type ofTenant struct {
	remote
	Tenant string `name:"tenant" env:"LETHE_TENANT" default:"default" help:"Whose tokens." placeholder:"NAME"`
}

func (t *ofTenant) tokens() (client.Tokens, error) {
	server, err := t.connect()
	if err != nil {
		return client.Tokens{}, err
	}
	return server.Tokens(t.Tenant), nil
}

type tokenCreateCmd struct {
	ofTenant
	Name      string         `arg:"" help:"What the token is for; its holder is called so in logs."`
	Admin     bool           `name:"admin" help:"It may do everything in the tenant."`
	Drive     []string       `name:"drive" sep:"none" help:"What it may do below a path of the drive: read, write, delete. May be given several times." placeholder:"PATH:ACTION,…"`
	Warehouse []string       `name:"warehouse" sep:"none" help:"What it may do in a warehouse (* is each) or in a namespace of it: read, write, drop, purge. May be given several times." placeholder:"NAME[/NAMESPACE]:ACTION,…"`
	ExpiresIn *time.Duration `name:"expires-in" help:"How long it is good, such as 24h. Without it, until it is revoked." placeholder:"DURATION"`
}

// Help shows grants.
func (*tokenCreateCmd) Help() string {
	return `The token goes to the standard output, and cannot be shown again. For example:

  lethe token create backup --drive /backups:read,write --expires-in 720h
  lethe token create etl --warehouse lake/shop.eu:read,write,drop`
}

var (
	driveActions     = []string{"read", "write", "delete"}
	warehouseActions = []string{"read", "write", "drop", "purge"}
)

// grants reads what the flags allow.
func (t *tokenCreateCmd) grants() ([]client.Grant, error) {
	var out []client.Grant
	if t.Admin {
		if len(t.Drive)+len(t.Warehouse) > 0 {
			return nil, usageError{errors.New("--admin covers everything: no other grant beside it")}
		}
		return []client.Grant{{Admin: true}}, nil
	}
	for _, text := range t.Drive {
		where, actions, err := grantText(text, driveActions)
		if err != nil {
			return nil, err
		}
		p, err := drivePath(where)
		if err != nil {
			return nil, err
		}
		out = append(out, client.Grant{Drive: p, Actions: actions})
	}
	for _, text := range t.Warehouse {
		where, actions, err := grantText(text, warehouseActions)
		if err != nil {
			return nil, err
		}
		g := client.Grant{Actions: actions}
		name, namespace, inside := strings.Cut(where, "/")
		g.Warehouse = name
		if inside {
			if g.Namespace, err = namespaceArg(namespace); err != nil {
				return nil, err
			}
		}
		if name == "" {
			return nil, usageError{fmt.Errorf("%q names no warehouse", text)}
		}
		out = append(out, g)
	}
	if len(out) == 0 {
		return nil, usageError{errors.New("a token that may do nothing is of no use: give --admin, --drive or --warehouse")}
	}
	return out, nil
}

// grantText splits WHERE:ACTION,… at its last colon.
func grantText(text string, allowed []string) (where string, actions []string, err error) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return "", nil, usageError{fmt.Errorf("%q names no actions: write %s:%s", text, text, strings.Join(allowed, ","))}
	}
	actions = strings.Split(text[i+1:], ",")
	for _, a := range actions {
		if !slices.Contains(allowed, a) {
			return "", nil, usageError{fmt.Errorf("action %q of %q is none of %s", a, text, strings.Join(allowed, ", "))}
		}
	}
	return text[:i], actions, nil
}

// Run makes one token.
func (t *tokenCreateCmd) Run(ctx context.Context, c *console) error {
	grants, err := t.grants()
	if err != nil {
		return err
	}
	n := client.NewToken{Name: t.Name, Grants: grants}
	if t.ExpiresIn != nil { // 0 would be a token for ever
		if n.ExpiresIn = *t.ExpiresIn; n.ExpiresIn <= 0 || n.ExpiresIn%time.Second != 0 {
			return usageError{errors.New("--expires-in is a number of whole seconds, at least one")}
		}
	}
	tokens, err := t.tokens()
	if err != nil {
		return err
	}
	token, text, err := tokens.Create(ctx, n)
	switch {
	case err != nil:
		return t.hint(err)
	case t.JSON:
		return c.json(struct {
			client.Token
			Text string `json:"token"`
		}{token, text})
	}
	if err := c.print("%s", text); err != nil {
		return err
	}
	until := "until it is revoked"
	if token.ExpiresAt != nil {
		until = "until " + moment(*token.ExpiresAt)
	}
	c.note("Token %s, %s, is good %s. It is not shown again.", idText(token.ID), printable(token.Name), until)
	return nil
}

func (t *ofTenant) hint(err error) error {
	if client.CodeOf(err) == "NoSuchTenant" {
		return hintError{err, "See which tenants there are: lethe tenant ls"}
	}
	return err
}

type tokenListCmd struct{ ofTenant }

// Run lists tokens.
func (t *tokenListCmd) Run(ctx context.Context, c *console) error {
	tokens, err := t.tokens()
	if err != nil {
		return err
	}
	list, err := tokens.List(ctx)
	if err != nil {
		return t.hint(err)
	}
	if t.JSON {
		for _, token := range list {
			if err := c.json(token); err != nil {
				return err
			}
		}
		return nil
	}
	out := c.rows("ID", "NAME", "STATE", "EXPIRES", "CREATED", "BY", "GRANTS")
	for _, token := range list {
		expires := ""
		if token.ExpiresAt != nil {
			expires = moment(*token.ExpiresAt)
		}
		grants := make([]string, len(token.Grants))
		for i, g := range token.Grants {
			grants[i] = grantOf(g)
		}
		out.add(idText(token.ID), token.Name, tokenState(token, time.Now()), expires, moment(token.CreatedAt), token.CreatedBy, strings.Join(grants, " "))
	}
	return out.flush()
}

func tokenState(token client.Token, now time.Time) string {
	switch {
	case token.RevokedAt != nil:
		return "revoked"
	case token.ExpiresAt != nil && !token.ExpiresAt.After(now):
		return "expired"
	}
	return "good"
}

// grantOf writes a grant as the flags take it.
func grantOf(g client.Grant) string {
	actions := ":" + strings.Join(g.Actions, ",")
	switch {
	case g.Admin:
		return "admin"
	case g.Drive != "":
		return g.Drive + actions
	case len(g.Namespace) > 0:
		return g.Warehouse + "/" + g.Namespace.String() + actions
	}
	return g.Warehouse + actions
}

type tokenRevokeCmd struct {
	ofTenant
	ID int64 `arg:"" help:"Id of the token, as lethe token ls shows it."`
}

// Run ends one token.
func (t *tokenRevokeCmd) Run(ctx context.Context, c *console) error {
	tokens, err := t.tokens()
	if err != nil {
		return err
	}
	token, err := tokens.Revoke(ctx, t.ID)
	switch {
	case client.CodeOf(err) == "NoSuchTenant":
		return t.hint(err)
	case client.IsNotFound(err):
		return hintError{err, "See which tokens there are: lethe token ls --tenant " + shell(t.Tenant)}
	case err != nil:
		return err
	case t.JSON:
		return c.json(token)
	}
	return c.print("Token %s, %s, is revoked.", idText(token.ID), printable(token.Name))
}
