package metadata

import (
	"encoding/json"
	"strings"

	"github.com/apache/iceberg-go/view"
)

// maxViewUpdates bounds a commit: the library compares each new version with all others,
// twice. A client that replaces a view sends about five updates.
const maxViewUpdates = 1000

// ViewCommit is a decoded commit of one view: requirements and updates. It is immutable;
// Check and Apply may be repeated on newer metadata.
type ViewCommit struct {
	requirements view.Requirements
	replay       replay[viewUpdate]
}

// ViewResult is what a commit makes of a view.
type ViewResult struct {
	View    *View
	Changed bool // false: nothing to write, View is the base
}

// DecodeViewCommit reads requirements and updates of a commit; an identifier beside them
// is the caller's business. The only requirement of views is assert-view-uuid: none
// creates a view.
func DecodeViewCommit(body []byte, limits Limits) (c *ViewCommit, err error) {
	const op, what = "metadata.DecodeViewCommit", "commit view request"
	defer guard(op, what, &err)
	if err := limits.check(body); err != nil {
		return nil, invalid(op, what, err)
	}
	var wire struct {
		Requirements view.Requirements `json:"requirements"`
		Updates      []json.RawMessage `json:"updates"`
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		return nil, invalid(op, what, err)
	}
	c = &ViewCommit{requirements: wire.Requirements}
	if c.replay, err = decodeUpdates(op, what, viewActions, maxViewUpdates, wire.Updates); err != nil {
		return nil, err
	}
	return c, nil
}

// ChangesLocation reports whether the commit may change what View.Locations returns; it
// may still name the place that the view has, or one that only tables use.
func (c *ViewCommit) ChangesLocation() bool { return c.replay.changesLocation }

// Check tests the requirements against a view, or against none when v is nil. One that
// does not hold is a Conflict.
func (c *ViewCommit) Check(v *View) (err error) {
	const op = "metadata.ViewCommit.Check"
	defer guard(op, "commit requirement", &err)
	var meta view.Metadata // stays a nil interface, which the library tests for
	if v != nil {
		meta = v.meta
	}
	for _, r := range c.requirements {
		if err := r.Validate(meta); err != nil {
			text := sentence(err)
			if !strings.HasPrefix(text, requirementFailed) { // the library says so for tables only
				text = requirementFailed + "view " + text
			}
			return conflictf(op, "%s", text)
		}
	}
	return nil
}

// Apply makes the next version of base. It does not test the requirements.
func (c *ViewCommit) Apply(base *View) (res *ViewResult, err error) {
	const op, what = "metadata.ViewCommit.Apply", "view commit"
	defer guard(op, what, &err)
	ed, err := editView(base.meta)
	if err != nil {
		return nil, refused(op, what, err)
	}
	if err := c.replay.run(op, func(u viewUpdate) error { return u.applyTo(ed) }); err != nil {
		return nil, err
	}
	if !ed.b.HasChanges() {
		return &ViewResult{View: base}, nil
	}
	next, err := ed.finish(op, what)
	if err != nil {
		return nil, err
	}
	return &ViewResult{View: next, Changed: true}, nil
}
