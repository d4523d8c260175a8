package main

import (
	"context"
	"maps"
	"slices"

	"github.com/lethe-project/lethe/client"
)

type namespaceCmd struct {
	List namespaceListCmd `cmd:"" name:"ls" help:"List the namespaces at the top, or directly below another."`
	Show namespaceShowCmd `cmd:"" help:"Show a namespace and its properties."`
	Drop namespaceDropCmd `cmd:"" help:"Drop an empty namespace."`
}

type namespaceListCmd struct {
	inWarehouse
	Parent string `arg:"" optional:"" help:"Namespace to look below." placeholder:"PARENT"`
}

// Run lists namespaces.
func (n *namespaceListCmd) Run(ctx context.Context, c *console) error {
	var parent client.Namespace
	if n.Parent != "" {
		var err error
		if parent, err = namespaceArg(n.Parent); err != nil {
			return err
		}
	}
	warehouse, _, err := n.open()
	if err != nil {
		return err
	}
	for ns, err := range warehouse.Namespaces(ctx, parent) {
		if err != nil {
			return err
		}
		if n.JSON {
			err = c.json(map[string]any{"namespace": ns})
		} else {
			err = c.print("%s", ns)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type namespaceShowCmd struct {
	inWarehouse
	Namespace string `arg:"" help:"Namespace, such as shop.eu."`
}

// Run shows one namespace.
func (n *namespaceShowCmd) Run(ctx context.Context, c *console) error {
	ns, err := namespaceArg(n.Namespace)
	if err != nil {
		return err
	}
	warehouse, _, err := n.open()
	if err != nil {
		return err
	}
	info, err := warehouse.Namespace(ctx, ns)
	if err != nil {
		return err
	}
	if n.JSON {
		return c.json(info)
	}
	out := c.rows()
	out.add("namespace", info.Namespace.String())
	for _, key := range slices.Sorted(maps.Keys(info.Properties)) {
		out.add(key, info.Properties[key])
	}
	return out.flush()
}

type namespaceDropCmd struct {
	inWarehouse
	Namespace string `arg:"" help:"Namespace, such as shop.eu."`
}

// Run drops one namespace.
func (n *namespaceDropCmd) Run(ctx context.Context, c *console) error {
	ns, err := namespaceArg(n.Namespace)
	if err != nil {
		return err
	}
	warehouse, _, err := n.open()
	if err != nil {
		return err
	}
	if err := warehouse.DropNamespace(ctx, ns); err != nil {
		if client.StatusOf(err) == 409 {
			return hintError{err, "See what is in it: lethe table ls" + n.flag() + " " + shell(ns.String()) + " and lethe namespace ls" + n.flag() + " " + shell(ns.String())}
		}
		return err
	}
	if n.JSON {
		return c.json(map[string]any{"namespace": ns, "dropped": true})
	}
	return c.print("Dropped namespace %s.", ns)
}
