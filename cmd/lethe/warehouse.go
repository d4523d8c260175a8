package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/lethe-project/lethe/client"
)

type warehouseCmd struct {
	Create warehouseCreateCmd `cmd:"" help:"Make a warehouse in a bucket or directory of its own."`
	List   warehouseListCmd   `cmd:"" name:"ls" help:"List the warehouses."`
	Show   warehouseShowCmd   `cmd:"" help:"Show a warehouse."`
	Update warehouseUpdateCmd `cmd:"" help:"Change how a warehouse's storage is reached, its credentials, or the properties of new tables."`
	Drop   warehouseDropCmd   `cmd:"" help:"Drop a warehouse; with --purge, everything in it first."`
}

// oneWarehouse are the flags and the argument of commands on one warehouse.
type oneWarehouse struct {
	remote
	Name string `arg:"" help:"Name of the warehouse."`
}

// storageFlags say how storage is reached.
type storageFlags struct {
	Endpoint  *string  `name:"endpoint" help:"URL of a store that is not AWS." placeholder:"URL"`
	Region    *string  `name:"region" help:"Region of the bucket." placeholder:"NAME"`
	PathStyle string   `name:"path-style" enum:"true,false," default:"" help:"true: the bucket stands in the path, not in the host's name. Without it: with --endpoint only." placeholder:"BOOL"`
	Allowed   []string `name:"allowed-location" sep:"none" help:"One more place where tables may lie, in the same store. May be given several times." placeholder:"URL"`
}

func (s *storageFlags) pathStyle() *bool {
	if s.PathStyle == "" {
		return nil
	}
	on := s.PathStyle == "true"
	return &on
}

type warehouseCreateCmd struct {
	oneWarehouse
	Storage string `name:"storage" required:"" help:"Where tables live: s3://BUCKET/PREFIX, or file:///DIRECTORY on the server." placeholder:"URL"`
	storageFlags
	credentialFlags
	TableDefault  map[string]string `name:"table-default" mapsep:"none" help:"Property that new tables get unless they say otherwise. May be given several times." placeholder:"KEY=VALUE"`
	TableOverride map[string]string `name:"table-override" mapsep:"none" help:"Property that new tables get whatever they say. May be given several times." placeholder:"KEY=VALUE"`
}

// Help tells where secrets come from.
func (*warehouseCreateCmd) Help() string { return secretsHelp }

// Run makes one warehouse.
func (w *warehouseCreateCmd) Run(ctx context.Context, c *console) error {
	credentials, err := w.read(c)
	if err != nil {
		return err
	}
	server, err := w.connect()
	if err != nil {
		return err
	}
	storage := client.WarehouseStorage{URL: w.Storage, PathStyle: w.pathStyle(), AllowedLocations: w.Allowed}
	if w.Endpoint != nil {
		storage.Endpoint = *w.Endpoint
	}
	if w.Region != nil {
		storage.Region = *w.Region
	}
	info, err := server.Warehouses().Create(ctx, client.NewWarehouse{
		Name: w.Name, Storage: storage, Credentials: credentials, TableDefaults: w.TableDefault, TableOverrides: w.TableOverride,
	})
	switch {
	case err != nil:
		return err
	case w.JSON:
		return c.json(info)
	}
	return c.print("Created warehouse %s in %s.", info.Name, info.Storage.URL)
}

type warehouseListCmd struct{ remote }

// Run lists warehouses.
func (w *warehouseListCmd) Run(ctx context.Context, c *console) error {
	server, err := w.connect()
	if err != nil {
		return err
	}
	out := c.rows()
	if !w.JSON {
		out.add("NAME", "STATE", "STORAGE", "CREDENTIALS", "UPDATED")
	}
	for info, err := range server.Warehouses().List(ctx) {
		if err != nil {
			return err
		}
		if w.JSON {
			if err := c.json(info); err != nil {
				return err
			}
			continue
		}
		out.add(info.Name, openState(info.Closing), info.Storage.URL, info.Credentials.Type, moment(info.UpdatedAt))
	}
	return out.flush()
}

type warehouseShowCmd struct{ oneWarehouse }

// Run shows one warehouse.
func (w *warehouseShowCmd) Run(ctx context.Context, c *console) error {
	server, err := w.connect()
	if err != nil {
		return err
	}
	info, err := server.Warehouses().Get(ctx, w.Name)
	if err != nil {
		return w.hint(err)
	}
	if w.JSON {
		return c.json(info)
	}
	out := c.rows()
	add := func(name, value string) {
		if value != "" {
			out.add(name, value)
		}
	}
	out.add("warehouse", info.Name)
	out.add("state", openState(info.Closing))
	out.add("storage", info.Storage.URL)
	add("endpoint", info.Storage.Endpoint)
	add("region", info.Storage.Region)
	if info.Storage.PathStyle != nil {
		out.add("path style", strconv.FormatBool(*info.Storage.PathStyle))
	}
	for _, l := range info.Storage.AllowedLocations {
		out.add("allowed location", l)
	}
	out.add("credentials", info.Credentials.Type)
	add("access key id", info.Credentials.AccessKeyID)
	for _, key := range slices.Sorted(maps.Keys(info.TableDefaults)) {
		out.add("table default", key+"="+info.TableDefaults[key])
	}
	for _, key := range slices.Sorted(maps.Keys(info.TableOverrides)) {
		out.add("table override", key+"="+info.TableOverrides[key])
	}
	out.add("created", moment(info.CreatedAt))
	out.add("updated", moment(info.UpdatedAt))
	return out.flush()
}

// hint says what to do about a warehouse that is not there.
func (w *oneWarehouse) hint(err error) error {
	if client.IsNotFound(err) {
		return hintError{err, "See which warehouses there are: lethe warehouse ls"}
	}
	return err
}

type warehouseUpdateCmd struct {
	oneWarehouse
	storageFlags
	NoAllowed bool `name:"no-allowed-locations" help:"Tables may lie below the storage root only."`
	credentialFlags
	TableDefault       map[string]string `name:"table-default" mapsep:"none" help:"Set a property that new tables get unless they say otherwise." placeholder:"KEY=VALUE"`
	TableOverride      map[string]string `name:"table-override" mapsep:"none" help:"Set a property that new tables get whatever they say." placeholder:"KEY=VALUE"`
	UnsetTableDefault  []string          `name:"unset-table-default" sep:"none" help:"Take such a property away." placeholder:"KEY"`
	UnsetTableOverride []string          `name:"unset-table-override" sep:"none" help:"Take such a property away." placeholder:"KEY"`
}

// Help tells what is replaced, and where secrets come from.
func (*warehouseUpdateCmd) Help() string {
	return "What is not named stays as it is; --allowed-location replaces all that were allowed.\n\n" + secretsHelp
}

// Run changes one warehouse.
func (w *warehouseUpdateCmd) Run(ctx context.Context, c *console) error {
	credentials, err := w.read(c)
	if err != nil {
		return err
	}
	server, err := w.connect()
	if err != nil {
		return err
	}
	change := client.WarehouseChange{Credentials: credentials}
	if w.Endpoint != nil || w.Region != nil || w.PathStyle != "" || len(w.Allowed) > 0 || w.NoAllowed {
		change.Storage = &client.StorageChange{Endpoint: w.Endpoint, Region: w.Region, PathStyle: w.pathStyle()}
		if len(w.Allowed) > 0 || w.NoAllowed {
			allowed := append([]string{}, w.Allowed...)
			change.Storage.AllowedLocations = &allowed
		}
	}
	if len(w.TableDefault)+len(w.TableOverride)+len(w.UnsetTableDefault)+len(w.UnsetTableOverride) > 0 {
		info, err := server.Warehouses().Get(ctx, w.Name)
		if err != nil {
			return w.hint(err)
		}
		change.TableDefaults = edited(info.TableDefaults, w.TableDefault, w.UnsetTableDefault)
		change.TableOverrides = edited(info.TableOverrides, w.TableOverride, w.UnsetTableOverride)
	}
	info, err := server.Warehouses().Update(ctx, w.Name, change)
	switch {
	case err != nil:
		return w.hint(err)
	case w.JSON:
		return c.json(info)
	}
	return c.print("Updated warehouse %s.", info.Name)
}

// edited returns nil where nothing is changed.
func edited(now, set map[string]string, unset []string) *map[string]string {
	if len(set)+len(unset) == 0 {
		return nil
	}
	out := map[string]string{}
	maps.Copy(out, now)
	for _, key := range unset {
		delete(out, key)
	}
	maps.Copy(out, set)
	return &out
}

type warehouseDropCmd struct {
	oneWarehouse
	Purge bool `name:"purge" help:"Drop its tables and views with their files first. The server goes on until the last one is gone."`
	Wait  bool `name:"wait" help:"With --purge: wait until all is gone."`
}

// Run drops one warehouse.
func (w *warehouseDropCmd) Run(ctx context.Context, c *console) error {
	if w.Wait && !w.Purge {
		return usageError{errors.New("--wait is about what is in the warehouse: it needs --purge")}
	}
	server, err := w.connect()
	if err != nil {
		return err
	}
	job := ""
	if w.Purge {
		job, err = server.Warehouses().Purge(ctx, w.Name)
	} else {
		err = server.Warehouses().Drop(ctx, w.Name)
	}
	switch {
	case client.StatusOf(err) == 409 && client.CodeOf(err) != isDefault:
		return hintError{err, fmt.Sprintf("See what is in it: lethe namespace ls --warehouse %[1]s and lethe job ls --warehouse %[1]s. With --purge, that is dropped first.", shell(w.Name))}
	case err != nil:
		return w.hint(err)
	case job != "" && w.Wait:
		return c.await(ctx, server.Jobs(), job, w.JSON)
	case w.JSON && job != "":
		return c.json(map[string]any{"warehouse": w.Name, "dropped": false, "job": job})
	case w.JSON:
		return c.json(map[string]any{"warehouse": w.Name, "dropped": true})
	case job == "":
		return c.print("Dropped warehouse %s.", w.Name)
	}
	return c.print("Warehouse %s is closed; %s drops what is in it. Watch it with lethe job wait %[2]s", w.Name, job)
}

// isDefault is the server's word for the warehouse that stays.
const isDefault = "DefaultWarehouse"
