package tablefile

import (
	"errors"
	"fmt"
	"io"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"
)

// Limits on what one Avro file may make us hold.
const (
	maxBlock = 64 << 20 // bytes of a block, on the wire and decompressed
	maxPath  = 8 << 10  // bytes of a path
)

// column is one field that is read: found by its Iceberg field id, else by its name.
type column struct {
	id       int64
	name     string
	required bool
	fields   []column // of a record
}

// openOCF opens an Avro container that yields only the columns, so that statistics maps
// and partition tuples are skipped undecoded, whatever the writer called them.
func openOCF(r io.Reader, columns []column) (*ocf.Reader, error) {
	return ocf.NewReader(
		r,
		ocf.WithMaxBlockBytes(maxBlock),
		ocf.WithMaxDecompressedBlockBytes(maxBlock),
		ocf.WithCodec(&deflate{}),
		// Partition fields keep the table's column names, which some writers do not mask.
		ocf.WithSchemaOpts(avro.WithLaxNames(nil)),
		ocf.WithReaderSchemaFunc(func(rd *ocf.Reader) (*avro.Schema, error) {
			root := rd.Schema().Root()
			pruned, err := project(root, columns)
			if err != nil {
				return nil, err
			}
			return pruned.Schema(avro.WithLaxNames(nil))
		}),
	)
}

// project returns node with only the columns, under their names of the spec.
func project(node *avro.SchemaNode, columns []column) (*avro.SchemaNode, error) {
	if node.Type != "record" {
		return nil, fmt.Errorf("a %s where a record was expected", node.Type)
	}
	out := *node
	out.Fields = nil
	for _, c := range columns {
		f := find(node.Fields, c)
		if f == nil {
			if c.required {
				return nil, fmt.Errorf("no field %s", c.name)
			}
			continue
		}
		field := *f
		if field.Name != c.name {
			field.Aliases = []string{field.Name}
			field.Name = c.name
		}
		if c.fields != nil {
			inner, err := project(&f.Type, c.fields)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			field.Type = *inner
		}
		out.Fields = append(out.Fields, field)
	}
	return &out, nil
}

func find(fields []avro.SchemaField, c column) *avro.SchemaField {
	var named *avro.SchemaField
	for i := range fields {
		f := &fields[i]
		if id, ok := f.Props["field-id"].(int64); ok && id == c.id {
			return f
		}
		if f.Name == c.name {
			named = f
		}
	}
	return named
}

// records decodes every record of an Avro file into row and calls fn.
func records[T any](what string, r io.Reader, columns []column, fn func(row *T) error) (int64, error) {
	src := &source{r: r}
	var count int64
	err := guarded(what, src, func() (err error) {
		rd, err := openOCF(src, columns)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rd.Close()) }()
		var row T
		for {
			row = *new(T)
			switch err := rd.Decode(&row); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			}
			count++
			if err := fn(&row); err != nil {
				return err
			}
		}
	})
	return count, err
}

func checkPath(path string) error {
	switch {
	case path == "":
		return errors.New("an empty path")
	case len(path) > maxPath:
		return fmt.Errorf("a path of %d bytes", len(path))
	}
	return nil
}
