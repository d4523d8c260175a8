package server

import (
	"context"
	"strings"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/purge"
)

// purgeEvents are what a purge tells the log and the metrics.
func (s *server) purgeEvents() purge.Events {
	counted := s.metrics.Events()
	args := func(j purge.Job) []any {
		return []any{
			"job", s.purges.Name(j.ID), "principal", j.CreatedBy, "warehouse", j.Warehouse, "namespace", j.Namespace, "table", j.Name,
			"type", string(j.Type), "purgeRequested", true, "async", j.Async, "requestId", j.RequestID,
		}
	}
	return purge.Events{
		Files: counted.Files,
		Started: func(j purge.Job) {
			s.log.Info("purge started", append(args(j), "phase", j.Phase)...)
		},
		Completed: func(j purge.Job, p purge.Progress) {
			counted.Completed(j, p)
			s.log.Info("purge completed", append(args(j), "files", p.Files, "bytes", p.Bytes, "missing", p.Missing,
				"skipped", total(p.Skipped), "leftovers", p.Leftovers)...)
		},
		Failed: func(j purge.Job, p purge.Progress, err error) {
			s.log.Warn("purge attempt failed", append(args(j), "files", p.Files, "failed", p.Failed, "error", err)...)
		},
	}
}

func total(by map[purge.Reason]int64) (n int64) {
	for _, count := range by {
		n += count
	}
	return n
}

// catalogEvents are the drops.
func (s *server) catalogEvents() catalog.Events {
	return catalog.Events{Dropped: func(ctx context.Context, d catalog.Dropped) {
		s.log.InfoContext(ctx, "audit", "action", strings.ToLower(d.Kind.String())+".drop", "principal", d.Call.Principal, "warehouse", d.Call.Warehouse.Name,
			"name", d.Identifier.String(), "purgeRequested", d.PurgeRequested, "async", d.Async, "job", d.Job, "requestId", d.Call.RequestID)
	}}
}
