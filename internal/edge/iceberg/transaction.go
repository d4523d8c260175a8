package iceberg

import (
	"encoding/json"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

// commitTransaction changes several tables at once (spec: commitTransaction).
func (e *edge) commitTransaction(c *call) error {
	const op = "iceberg.transaction"
	var req struct {
		Changes []json.RawMessage `json:"table-changes"`
	}
	if err := e.decode(c, &req); err != nil {
		return err
	}
	if len(req.Changes) == 0 {
		return fault.New(op, fault.Invalid, "", "table-changes is required")
	}
	commits := make([]catalog.TableCommit, len(req.Changes))
	for i, raw := range req.Changes {
		var named struct {
			Identifier *identifier `json:"identifier"`
		}
		if err := json.Unmarshal(raw, &named); err != nil {
			return fault.Wrap(op, fault.Invalid, "", err, "table-changes[%d] cannot be read: %v", i, err)
		}
		if named.Identifier == nil {
			return fault.New(op, fault.Invalid, "", "table-changes[%d] has no identifier", i)
		}
		if err := c.may(named.Identifier.parse().Namespace, tenant.Write); err != nil {
			return err
		}
		commit, err := metadata.DecodeCommit(raw, e.Limits)
		if err != nil {
			return err
		}
		commits[i] = catalog.TableCommit{Identifier: named.Identifier.parse(), Commit: commit}
	}
	if err := e.Catalog.CommitTransaction(c.r.Context(), c.on(), commits); err != nil {
		return err
	}
	for _, tc := range commits {
		if tc.Commit.AssertsCreate() {
			e.audit(c, "table.create", "namespace", tc.Identifier.Namespace.String(), "table", tc.Identifier.Name)
		}
	}
	return e.none(c)
}
