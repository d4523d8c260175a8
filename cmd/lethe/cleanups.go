package main

import (
	"context"
	"strconv"

	"github.com/lethe-project/lethe/client"
)

type cleanupsCmd struct {
	List cleanupsListCmd `cmd:"" name:"ls" help:"List the rows of iceberg_cleanup_job."`
}

type cleanupsListCmd struct {
	inWarehouse
	Tenant    string `name:"tenant" default:"default" help:"Tenant, which other catalogs call metalake." placeholder:"NAME"`
	Namespace string `name:"namespace" help:"Only those of a namespace." placeholder:"NAMESPACE"`
	Table     string `name:"table" help:"Only those of tables and views of that name." placeholder:"NAME"`
	State     string `name:"state" enum:"PENDING,RUNNING,SUCCEEDED,FAILED,CANCELLED," default:"" help:"Only those: PENDING, RUNNING, SUCCEEDED, FAILED or CANCELLED." placeholder:"STATE"`
}

// Run lists cleanups.
func (l *cleanupsListCmd) Run(ctx context.Context, c *console) error {
	filter := client.CleanupFilter{Metalake: l.Tenant, Catalog: l.Warehouse, Table: l.Table, State: client.JobState(l.State)}
	if l.Namespace != "" {
		var err error
		if filter.Namespace, err = namespaceArg(l.Namespace); err != nil {
			return err
		}
	}
	server, err := l.connect()
	if err != nil {
		return err
	}
	out := c.rows()
	if !l.JSON {
		out.add("ID", "JOB", "TYPE", "OBJECT", "STATE", "ATTEMPTS", "PHASE", "CREATED", "BY")
	}
	for row, err := range server.Cleanups(ctx, filter) {
		if err != nil {
			return err
		}
		if l.JSON {
			if err := c.json(row); err != nil {
				return err
			}
			continue
		}
		object := client.Identifier{Namespace: row.Namespace, Name: row.Table}
		out.add(strconv.FormatInt(row.ID, 10), row.Job, row.ObjectType, object.String(), string(row.State), strconv.Itoa(row.Attempts), row.Phase, moment(row.CreatedAt), row.CreatedBy)
	}
	return out.flush()
}
