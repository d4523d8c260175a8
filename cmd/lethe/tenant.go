package main

import (
	"context"
	"strconv"

	"github.com/lethe-project/lethe/client"
)

type tenantCmd struct {
	Create tenantCreateCmd `cmd:"" help:"Make a tenant with a drive of its own."`
	List   tenantListCmd   `cmd:"" name:"ls" help:"List the tenants."`
	Show   tenantShowCmd   `cmd:"" help:"Show a tenant and what its drive holds."`
	Quota  tenantQuotaCmd  `cmd:"" help:"Bound what a tenant's drive may hold."`
	Drop   tenantDropCmd   `cmd:"" help:"Drop a tenant."`
}

// oneTenant are the flags and the argument of commands on one tenant.
type oneTenant struct {
	remote
	Name string `arg:"" help:"Name of the tenant."`
}

// hint says what to do about a tenant that is not there.
func (t *oneTenant) hint(err error) error {
	if client.IsNotFound(err) {
		return hintError{err, "See which tenants there are: lethe tenant ls"}
	}
	return err
}

type tenantCreateCmd struct{ oneTenant }

// Run makes one tenant.
func (t *tenantCreateCmd) Run(ctx context.Context, c *console) error {
	server, err := t.connect()
	if err != nil {
		return err
	}
	info, err := server.Tenants().Create(ctx, t.Name)
	switch {
	case err != nil:
		return err
	case t.JSON:
		return c.json(info)
	}
	if err := c.print("Created tenant %s.", info.Name); err != nil {
		return err
	}
	c.note("Make a token for it with lethe token create --tenant %s --admin NAME", shell(info.Name))
	return nil
}

type tenantListCmd struct{ remote }

// Run lists tenants.
func (t *tenantListCmd) Run(ctx context.Context, c *console) error {
	server, err := t.connect()
	if err != nil {
		return err
	}
	list, err := server.Tenants().List(ctx)
	if err != nil {
		return err
	}
	if t.JSON {
		for _, info := range list {
			if err := c.json(info); err != nil {
				return err
			}
		}
		return nil
	}
	out := c.rows("NAME", "STATE", "CREATED")
	for _, info := range list {
		out.add(info.Name, openState(info.Closing), moment(info.CreatedAt))
	}
	return out.flush()
}

// openState is the state of a tenant or warehouse.
func openState(closing bool) string {
	if closing {
		return "closing"
	}
	return "open"
}

type tenantShowCmd struct{ oneTenant }

// Run shows one tenant.
func (t *tenantShowCmd) Run(ctx context.Context, c *console) error {
	server, err := t.connect()
	if err != nil {
		return err
	}
	info, err := server.Tenants().Get(ctx, t.Name)
	if err != nil {
		return t.hint(err)
	}
	return t.show(c, info)
}

func (t *oneTenant) show(c *console, info client.Tenant) error {
	if t.JSON {
		return c.json(info)
	}
	out := c.rows()
	out.add("tenant", info.Name)
	out.add("state", openState(info.Closing))
	out.add("created", moment(info.CreatedAt))
	if u := info.Usage; u != nil {
		out.add("bytes", bounded(u.Bytes, u.QuotaBytes))
		out.add("files", bounded(u.Files, u.QuotaFiles))
	}
	return out.flush()
}

func bounded(n, quota int64) string {
	if quota == 0 {
		return count(n)
	}
	return count(n) + " of " + count(quota)
}

type tenantQuotaCmd struct {
	oneTenant
	Bytes *string `name:"bytes" help:"Bytes that the drive may hold, such as 10GB or 10GiB; 0 or none: no bound." placeholder:"SIZE"`
	Files *string `name:"files" help:"Files that the drive may hold; 0 or none: no bound." placeholder:"N"`
}

// Help tells what happens to the one that is not named.
func (*tenantQuotaCmd) Help() string {
	return "What is not named stays as it is. What a drive holds already stays, too."
}

// Run sets quotas, or shows them.
func (t *tenantQuotaCmd) Run(ctx context.Context, c *console) error {
	bytes, err := bound(t.Bytes)
	if err != nil {
		return err
	}
	files, err := bound(t.Files)
	if err != nil {
		return err
	}
	server, err := t.connect()
	if err != nil {
		return err
	}
	info, err := server.Tenants().Get(ctx, t.Name)
	if err != nil {
		return t.hint(err)
	}
	if bytes == nil && files == nil {
		return t.show(c, info)
	}
	var quota client.Quota
	if info.Usage != nil {
		quota = client.Quota{Bytes: info.Usage.QuotaBytes, Files: info.Usage.QuotaFiles}
	}
	if bytes != nil {
		quota.Bytes = *bytes
	}
	if files != nil {
		quota.Files = *files
	}
	if info, err = server.Tenants().SetQuota(ctx, t.Name, quota); err != nil {
		return t.hint(err)
	}
	return t.show(c, info)
}

// bound reads a quota; nil is none that was given.
func bound(text *string) (*int64, error) {
	if text == nil {
		return nil, nil //nolint:nilnil // none was given
	}
	var n byteCount
	if *text != "none" {
		if err := n.UnmarshalText([]byte(*text)); err != nil {
			return nil, usageError{err}
		}
	}
	whole := int64(n)
	return &whole, nil
}

type tenantDropCmd struct {
	oneTenant
	Purge bool `name:"purge" help:"Drop its tables with their files, its warehouses and its drive first."`
	Wait  bool `name:"wait" help:"With --purge: wait until all is gone."`
}

// Run drops one tenant.
func (t *tenantDropCmd) Run(ctx context.Context, c *console) error {
	server, err := t.connect()
	if err != nil {
		return err
	}
	job, err := server.Tenants().Drop(ctx, t.Name, t.Purge)
	switch {
	case client.StatusOf(err) == 409 && !t.Purge && t.Name != "default":
		return hintError{err, "With --purge, what it has is dropped first."}
	case err != nil:
		return t.hint(err)
	case job != "" && t.Wait:
		return c.await(ctx, server.Jobs(), job, t.JSON)
	case t.JSON:
		return c.json(map[string]any{"tenant": t.Name, "dropped": job == "", "job": job})
	case job == "":
		return c.print("Dropped tenant %s.", t.Name)
	}
	return c.print("Tenant %s is closed; %s drops what it has. Watch it with lethe job wait %[2]s", t.Name, job)
}

// idText writes an id.
func idText(id int64) string { return strconv.FormatInt(id, 10) }
