package metadata

import (
	"errors"
	"fmt"

	"github.com/apache/iceberg-go/view"
)

// viewUpdate is one decoded change of a commit to a view, under the rules of update.
// Changes that tables know too share their form, not what they do.
type viewUpdate interface {
	applyTo(ed *viewEditor) error
}

// viewActions are the updates of views in the REST specification.
var viewActions = map[string]action[viewUpdate]{
	"assign-uuid":              {func() viewUpdate { return new(assignUUID) }, []string{"uuid"}},
	"upgrade-format-version":   {func() viewUpdate { return new(upgradeFormat) }, []string{"format-version"}},
	"add-schema":               {func() viewUpdate { return new(addSchema) }, []string{"schema"}},
	"set-location":             {func() viewUpdate { return new(setLocation) }, []string{"location"}},
	"set-properties":           {func() viewUpdate { return new(setProperties) }, nil},
	"remove-properties":        {func() viewUpdate { return new(removeProperties) }, nil},
	"add-view-version":         {func() viewUpdate { return new(addViewVersion) }, []string{"view-version"}},
	"set-current-view-version": {func() viewUpdate { return new(setCurrentViewVersion) }, []string{"view-version-id"}},
}

func (u *assignUUID) applyTo(ed *viewEditor) error {
	if ed.uuid != u.UUID {
		return fmt.Errorf("the uuid of an existing view cannot be changed (%s to %s)", ed.uuid, u.UUID)
	}
	return nil
}

func (u *upgradeFormat) applyTo(ed *viewEditor) error { return ed.b.SetFormatVersion(u.Version).Err() }

func (u *addSchema) applyTo(ed *viewEditor) error { return ed.addSchema(u.Schema) }

func (u *setLocation) applyTo(ed *viewEditor) error {
	location := stripSlashes(u.Location)
	if location == "" {
		return errors.New("location is empty")
	}
	return ed.b.SetLoc(location).Err()
}

func (u *setProperties) applyTo(ed *viewEditor) error { return ed.b.SetProperties(u.values).Err() }

func (u *removeProperties) applyTo(ed *viewEditor) error {
	return ed.b.RemoveProperties(u.Removals).Err()
}

type addViewVersion struct {
	Fields  versionFields `json:"view-version"`
	version *view.Version
}

func (u *addViewVersion) prepare() (err error) {
	u.version, err = u.Fields.version()
	u.Fields = versionFields{}
	return err
}

func (u *addViewVersion) applyTo(ed *viewEditor) error { return ed.addVersion(u.version) }

type setCurrentViewVersion struct {
	ID int64 `json:"view-version-id"`
}

func (u *setCurrentViewVersion) applyTo(ed *viewEditor) error { return ed.setCurrent(u.ID) }
