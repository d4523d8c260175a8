package iceberg

import (
	"encoding/json"

	"github.com/lethe-project/lethe/internal/fault"
)

// decode reads a small JSON body. Unknown fields are left alone, as the spec asks.
func (e *edge) decode(c *call, into any) error {
	data, err := c.body()
	if err != nil {
		return err
	}
	if err := e.Limits.Check(data); err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fault.Wrap("iceberg.decode", fault.Invalid, "", err, "the body is not the JSON this operation takes: %v", err)
	}
	return nil
}
