package purge

import (
	"context"
	"errors"

	"github.com/lethe-project/lethe/internal/job"
)

// purgeView is where the purge of a view's metadata versions goes: no manifests, no
// data, every version's file, the one that the catalog named last.
func (a *walk) purgeView(context.Context) error {
	return job.Terminal(errors.New("purge: views can not be purged yet"))
}
