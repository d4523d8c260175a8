package catalog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

// readMetadata reads and parses a table's metadata file.
func (c *Catalog) readMetadata(ctx context.Context, op string, w *tenant.Warehouse, location string) (*metadata.Table, error) {
	doc, err := c.readDocument(ctx, op, w, KindTable, location)
	if err != nil {
		return nil, err
	}
	return doc.(*metadata.Table), nil
}

// readDocument reads and parses a metadata file.
func (c *Catalog) readDocument(ctx context.Context, op string, w *tenant.Warehouse, kind Kind, location string) (document, error) {
	obj, err := w.Space.Resolve(location)
	if err != nil {
		return nil, fault.Wrap(op, fault.Invalid, CodeBadLocation, err,
			"metadata file %q is not below the warehouse's storage root or its allowed locations", location)
	}
	body, info, err := obj.Bucket.Open(ctx, obj.Key)
	if err != nil {
		return nil, storeFault(op, "read metadata file "+location, err)
	}
	defer func() { _ = body.Close() }() // read to its end, nothing is lost
	limit := c.limits.Bytes()
	if info.Size > limit {
		return nil, fault.New(op, fault.Invalid, CodeDamagedMetadata, "metadata file %s has %d bytes, at most %d are read", location, info.Size, limit)
	}
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, storeFault(op, "read metadata file "+location, err)
	}
	var doc document
	if kind == KindView {
		doc, err = metadata.ParseView(data, c.limits)
	} else {
		doc, err = metadata.Parse(data, c.limits)
	}
	if err != nil {
		return nil, fault.Wrap(op, fault.Invalid, CodeDamagedMetadata, err, "metadata file %s cannot be read: %s", location, fault.Public(err))
	}
	return doc, nil
}

// writeMetadata writes a new metadata file and returns its location.
func (c *Catalog) writeMetadata(ctx context.Context, op string, w *tenant.Warehouse, t document, version int) (string, error) {
	data, err := t.Encode()
	if err != nil {
		return "", err
	}
	location := joinURI(t.MetadataDir(), t.FileName(version, uuid.New()))
	if len(location) > maxMetadataPath {
		return "", fault.New(op, fault.Invalid, CodeBadLocation, "the metadata file's location is longer than %d bytes", maxMetadataPath)
	}
	obj, err := w.Space.Resolve(location)
	if err != nil {
		return "", fault.Wrap(op, fault.Invalid, CodeBadLocation, err, "metadata location %q is outside the warehouse", location)
	}
	if err := obj.Bucket.Put(ctx, obj.Key, bytes.NewReader(data)); err != nil {
		// A put that failed may still have left the file; nobody names it yet.
		c.discard(ctx, w, location)
		return "", storeFault(op, "write metadata file "+location, err)
	}
	return location, nil
}

// discard removes files that surely nobody names: a commit's that was not applied, or
// old metadata after delete-after-commit. What cannot be removed is logged, and found
// again by the purge's listing of leftovers.
func (c *Catalog) discard(ctx context.Context, w *tenant.Warehouse, locations ...string) {
	// The request may be over, its leavings are not.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	for _, location := range locations {
		obj, err := w.Space.Resolve(location)
		if err != nil {
			continue // not ours to touch
		}
		if r := obj.Bucket.DeleteMany(ctx, []blob.Key{obj.Key})[0]; r.Outcome == blob.Failed {
			c.log.WarnContext(ctx, "metadata file left behind", "location", location, "error", r.Err)
		}
		// A failed first create should not leave its empty directories.
		if p, ok := obj.Bucket.(blob.DirPruner); ok {
			if parent, err := w.Space.Resolve(tableDir(location)); err == nil {
				_ = p.PruneDirs(ctx, []blob.Key{obj.Key}, parent.Key)
			}
		}
	}
}

// tableDir is the directory above a metadata file's directory.
func tableDir(location string) string {
	for range 2 {
		for i := len(location) - 1; i > 0; i-- {
			if location[i] == '/' {
				location = location[:i]
				break
			}
		}
	}
	return location
}

// storeFault classifies trouble of the object store before anything was applied.
func storeFault(op, doing string, err error) error {
	switch class := blob.ClassOf(err); {
	case class == blob.NotExist:
		return fault.Wrap(op, fault.NotFound, CodeMissingMetadata, err, "%s: it does not exist", doing)
	case class == blob.Denied:
		return fault.Wrap(op, fault.Denied, CodeStorage, err, "%s: the store denied access", doing)
	case class == blob.Invalid:
		return fault.Wrap(op, fault.Invalid, CodeBadLocation, err, "%s: the store cannot hold that name", doing)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), class.Outage():
		return &fault.Error{Op: op, Kind: fault.Busy, Code: CodeStorage, Message: doing + ": the store is unavailable, nothing was changed", RetryAfter: time.Second, Err: err}
	default:
		return &fault.Error{Op: op, Kind: fault.Busy, Code: CodeStorage, Message: doing + ": the store failed, nothing was changed", RetryAfter: 5 * time.Second, Err: err}
	}
}
