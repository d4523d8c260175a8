package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/lethe-project/lethe/client"
)

type viewCmd struct {
	List   viewListCmd   `cmd:"" name:"ls" help:"List the views of a namespace."`
	Show   viewShowCmd   `cmd:"" help:"Show a view and its query."`
	Rename viewRenameCmd `cmd:"" help:"Give a view another name."`
	Drop   viewDropCmd   `cmd:"" help:"Drop a view; with --purge, its metadata files too."`
}

type viewListCmd struct {
	inWarehouse
	Namespace string `arg:"" help:"Namespace, such as shop.eu."`
}

// Run lists views.
func (v *viewListCmd) Run(ctx context.Context, c *console) error {
	ns, err := namespaceArg(v.Namespace)
	if err != nil {
		return err
	}
	warehouse, _, err := v.open()
	if err != nil {
		return err
	}
	return c.identifiers(warehouse.Views(ctx, ns), v.JSON)
}

type viewShowCmd struct {
	inWarehouse
	View string `arg:"" help:"View, such as shop.eu.recent."`
}

// viewMetadata is what a person wants of the view metadata (Iceberg view spec, version 1).
type viewMetadata struct {
	Version  int    `json:"format-version"`
	UUID     string `json:"view-uuid"`
	Location string `json:"location"`
	Current  int64  `json:"current-version-id"`
	Versions []struct {
		ID              int64 `json:"version-id"`
		Representations []struct {
			Dialect string `json:"dialect"`
			SQL     string `json:"sql"`
		} `json:"representations"`
	} `json:"versions"`
}

// Run shows one view.
func (v *viewShowCmd) Run(ctx context.Context, c *console) error {
	id, err := identifierArg(v.View)
	if err != nil {
		return err
	}
	warehouse, _, err := v.open()
	if err != nil {
		return err
	}
	info, err := warehouse.View(ctx, id)
	switch {
	case client.IsNotFound(err):
		return missing(err, "view", id)
	case err != nil:
		return err
	case v.JSON:
		return c.json(info)
	}
	var metadata viewMetadata
	if err := json.Unmarshal(info.Metadata, &metadata); err != nil {
		return fmt.Errorf("the view's metadata cannot be read: %w", err)
	}
	out := c.rows()
	out.add("view", id.String())
	out.add("uuid", metadata.UUID)
	out.add("format version", strconv.Itoa(metadata.Version))
	out.add("location", metadata.Location)
	out.add("metadata", info.MetadataLocation)
	out.add("current version", strconv.FormatInt(metadata.Current, 10))
	out.add("versions", strconv.Itoa(len(metadata.Versions)))
	if err := out.flush(); err != nil {
		return err
	}
	for _, version := range metadata.Versions {
		if version.ID != metadata.Current {
			continue
		}
		for _, r := range version.Representations {
			if err := c.query(r.Dialect, r.SQL); err != nil {
				return err
			}
		}
	}
	return nil
}

// query prints a query below a head, its lines as they were written.
func (c *console) query(dialect, sql string) error {
	if err := c.print("\n%s:", printable(dialect)); err != nil {
		return err
	}
	for line := range strings.Lines(strings.ReplaceAll(sql, "\t", "    ")) {
		if err := c.print("  %s", printable(strings.TrimRight(line, "\r\n"))); err != nil {
			return err
		}
	}
	return nil
}
