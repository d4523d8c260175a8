package iceberg

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/fault"
)

const headerIdempotency = "Idempotency-Key"

// replay gives the answer of a success again, from what the operation stored.
type replay func(e *edge, c *call, result string) error

// run handles one request, once for each Idempotency-Key (spec: parameter
// idempotency-key): the answer of a success or of a deterministic error is given again.
func (e *edge) run(c *call, rt *route) error {
	header := c.r.Header.Get(headerIdempotency)
	if header == "" || rt.replay == nil {
		return rt.handle(e, c)
	}
	key, err := uuid.Parse(header)
	if err != nil || len(header) != 36 {
		return fault.New("iceberg.run", fault.Invalid, "", "%s must be a UUID of 36 characters", headerIdempotency)
	}
	hash, err := c.hash()
	if err != nil {
		return err
	}
	if c.key, err = c.owned(key, hash); err != nil {
		return err
	}
	recalled, err := e.Catalog.Recall(c.r.Context(), c.on())
	if err != nil {
		return err
	}
	if recalled == nil {
		err = rt.handle(e, c)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, catalog.ErrTwin):
			recalled, err = e.Catalog.Recall(c.r.Context(), c.on())
		default:
			twin, rememberErr := e.Catalog.Remember(c.r.Context(), c.on(), "", err)
			if rememberErr != nil {
				e.Logger.WarnContext(c.r.Context(), "answer not remembered", "requestId", c.id, "error", rememberErr)
			}
			if twin == nil {
				return err
			}
			recalled, err = twin, nil
		}
		if err != nil {
			return err
		}
		if recalled == nil { // it expired in between
			return &fault.Error{Op: "iceberg.run", Kind: fault.Busy, Message: "the same request was under way, try again"}
		}
	}
	if recalled.Err != nil {
		return recalled.Err
	}
	return rt.replay(e, c, recalled.Result)
}

// owned makes a key the caller's own. Principals of two tenants, and tokens with other
// grants in one, may have the same name; an answer is given again only to whom it was given.
func (c *call) owned(key uuid.UUID, hash string) (*catalog.Idempotency, error) {
	grants, err := json.Marshal(c.principal.Grants)
	if err != nil {
		return nil, err
	}
	owner := fmt.Appendf(nil, "%d %t %s", c.principal.Tenant, c.principal.Operator, grants)
	return &catalog.Idempotency{Key: uuid.NewSHA1(key, owner).String(), Hash: hash}, nil
}

// hash covers everything that decides what the request does.
func (c *call) hash() (string, error) {
	body, err := c.body()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s\n%s\n%s\n%s\n", c.r.Method, c.r.URL.EscapedPath(), c.r.URL.RawQuery, c.r.Header.Get(headerAsync)) // a hash takes all
	_, _ = h.Write(body)
	return hex.EncodeToString(h.Sum(nil)), nil
}

// body reads the whole request body, bounded by MaxBody, once.
func (c *call) body() ([]byte, error) {
	if c.read == nil {
		data, err := io.ReadAll(c.r.Body)
		if err != nil {
			return nil, fault.E("iceberg.body", fault.Invalid, err)
		}
		c.read = data
	}
	return c.read, nil
}

func replayNone(e *edge, c *call, _ string) error { return e.none(c) }

func replayDrop(e *edge, c *call, result string) error {
	if result == "" {
		return e.none(c)
	}
	j, ok := e.Jobs.ParseName(result)
	if !ok {
		return fmt.Errorf("iceberg: remembered job %q", result)
	}
	async, err := flag("iceberg.replayDrop", headerAsync, c.r.Header.Get(headerAsync))
	if err != nil {
		return err
	}
	return e.awaitPurge(c, j, async)
}

func replayNamespace(e *edge, c *call, _ string) error {
	var req namespaceRequest
	if err := e.decode(c, &req); err != nil {
		return err
	}
	return e.showNamespace(c, req)
}

func replayChanges(e *edge, c *call, result string) error {
	return e.send(c, http.StatusOK, json.RawMessage(result))
}

// replayUnregister answers with the metadata that the entry pointed to.
func replayUnregister(e *edge, c *call, result string) error {
	loaded, err := e.Catalog.LoadRecalled(c.r.Context(), c.on(), result)
	if err != nil {
		return err
	}
	return e.document(c, loaded.MetadataLocation, loaded.Table.JSON())
}

// replayTable loads what the result names: the metadata file that the request made, or
// the document itself of a staged create. A file that is gone since gives way to the
// table as it stands.
func replayTable(e *edge, c *call, result string) error {
	loaded, err := e.Catalog.LoadRecalled(c.r.Context(), c.on(), result)
	if missing(err) {
		id, idErr := e.named(c)
		if idErr != nil {
			return idErr
		}
		loaded, err = e.Catalog.LoadTable(c.r.Context(), c.on(), id)
	}
	if err != nil {
		return err
	}
	return e.loaded(c, loaded, false)
}

func missing(err error) bool { return fault.Is(err, catalog.CodeMissingMetadata) }

// named is the table or view of a request, whose name stands in the path or in the body.
func (e *edge) named(c *call) (catalog.Identifier, error) {
	if len(c.vars) > 1 {
		return c.table()
	}
	n, err := c.namespace()
	if err != nil {
		return catalog.Identifier{}, err
	}
	var req struct {
		Name string `json:"name"`
	}
	err = e.decode(c, &req)
	return catalog.Identifier{Namespace: n, Name: req.Name}, err
}
