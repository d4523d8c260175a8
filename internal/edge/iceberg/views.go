package iceberg

import (
	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
)

func (e *edge) createView(c *call) error {
	n, err := c.namespace()
	if err != nil {
		return err
	}
	body, err := c.body()
	if err != nil {
		return err
	}
	req, err := metadata.DecodeCreateView(body, e.Limits)
	if err != nil {
		return err
	}
	loaded, err := e.Catalog.CreateView(c.r.Context(), c.on(), n, req)
	if err != nil {
		return err
	}
	e.audit(c, "view.create", "namespace", n.String(), "view", req.Name)
	return e.loadedView(c, loaded)
}

func (e *edge) registerView(c *call) error {
	n, err := c.namespace()
	if err != nil {
		return err
	}
	req, err := e.registration(c)
	if err != nil {
		return err
	}
	id := catalog.Identifier{Namespace: n, Name: req.Name}
	loaded, err := e.Catalog.RegisterView(c.r.Context(), c.on(), id, req.Location)
	if err != nil {
		return err
	}
	e.audit(c, "view.register", "view", id.String())
	return e.loadedView(c, loaded)
}

func (e *edge) loadView(c *call) error {
	id, err := c.table()
	if err != nil {
		return err
	}
	loaded, err := e.Catalog.LoadView(c.r.Context(), c.on(), id)
	if err != nil {
		return err
	}
	return e.loadedView(c, loaded)
}

func (e *edge) replaceView(c *call) error {
	id, err := c.table()
	if err != nil {
		return err
	}
	body, err := c.body()
	if err != nil {
		return err
	}
	commit, err := metadata.DecodeViewCommit(body, e.Limits)
	if err != nil {
		return err
	}
	loaded, err := e.Catalog.ReplaceView(c.r.Context(), c.on(), id, commit)
	if err != nil {
		return err
	}
	return e.loadedView(c, loaded)
}

func (e *edge) loadedView(c *call, l *catalog.LoadedView) error {
	return e.document(c, l.MetadataLocation, l.View.JSON())
}

// dropView removes a view. Its metadata files stay, unless the server's setting or the
// request asks for a purge, which is waited for like a table's.
func (e *edge) dropView(c *call) error {
	return e.drop(c, catalog.KindView, e.PurgeViews)
}

// replayView loads the metadata file that the request made; one that is gone since gives
// way to the view as it stands.
func replayView(e *edge, c *call, result string) error {
	loaded, err := e.Catalog.LoadRecalledView(c.r.Context(), c.on(), result)
	if missing(err) {
		id, idErr := e.named(c)
		if idErr != nil {
			return idErr
		}
		loaded, err = e.Catalog.LoadView(c.r.Context(), c.on(), id)
	}
	if err != nil {
		return err
	}
	return e.loadedView(c, loaded)
}
