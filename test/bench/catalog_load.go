package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	tablesPath   = "/iceberg/v1/default/namespaces/" + namespace + "/tables/"
	writerTables = 50
	history      = 20 // snapshots of a hot table
)

func tableName(i int) string { return fmt.Sprintf("t-%05d", i) }

// After the hot tables come those that are written, and a large one.
func (s catalogSizes) writer(i int) string { return tableName(s.Hot + i) }

func (s catalogSizes) large() string { return tableName(s.Hot + writerTables) }

// measure sends n requests over the connections and keeps how long each took.
func (op *operation) measure(connections, n int, do func(i int) error) error {
	var next, conflicts atomic.Int64
	took, errs := make([][]float64, connections), make([]error, connections)
	began := time.Now()
	var wg sync.WaitGroup
	for c := range connections {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				sent := time.Now()
				for {
					err := do(i)
					if refused, ok := errors.AsType[*refusal](err); ok && refused.status == http.StatusConflict {
						conflicts.Add(1)
						continue
					}
					if err != nil {
						errs[c] = err
						return
					}
					break
				}
				took[c] = append(took[c], millis(time.Since(sent)))
			}
		})
	}
	wg.Wait()
	op.rates = append(op.rates, float64(n)/time.Since(began).Seconds())
	op.Conflicts += int(conflicts.Load())
	for _, sample := range took {
		op.took = append(op.took, sample...)
	}
	return errors.Join(errs...)
}

// acceptGzip is what every Iceberg client sends.
var acceptGzip = map[string]string{"Accept-Encoding": "gzip"}

func (e *endpoint) load(ctx context.Context, name string) error {
	return e.do(ctx, http.MethodGet, tablesPath+name, acceptGzip, nil)
}

// object is a JSON object.
type object = map[string]any

// createBody asks for a table with some columns.
func createBody(name string) object {
	fields := make([]any, 20)
	for i := range fields {
		fields[i] = object{"id": i + 1, "name": "column_" + strconv.Itoa(i+1), "required": i == 0, "type": "long"}
	}
	return object{"name": name, "schema": object{"type": "struct", "schema-id": 0, "fields": fields}}
}

func (e *endpoint) create(ctx context.Context, name string) error {
	return e.do(ctx, http.MethodPost, "/iceberg/v1/default/namespaces/"+namespace+"/tables", nil, createBody(name))
}

// propertyBody is the smallest commit, which also any number of clients may send at once.
func propertyBody(value string) object {
	return object{"requirements": []any{}, "updates": []any{object{"action": "set-properties", "updates": object{"written-by": value}}}}
}

// appendBody is what an append of an engine sends: snapshots and where the branch stands
// then. The table's last snapshot is numbered last, 0 for none.
func appendBody(last, snapshots int) object {
	var parent any // null: the branch must not exist
	if last > 0 {
		parent = last
	}
	updates := make([]any, 0, snapshots+1)
	for id := last + 1; id <= last+snapshots; id++ {
		s := object{
			"snapshot-id": id, "sequence-number": id, "timestamp-ms": time.Now().UnixMilli(), "schema-id": 0,
			"manifest-list": fmt.Sprintf("file:///nowhere/metadata/snap-%d-1-9d6c6e3a-3b0c-4b6c-8b1a-5d0f3f6f2b7e.avro", id),
			"summary": map[string]string{
				"operation": "append", "added-data-files": "4", "added-records": "100000", "added-files-size": "1234567",
				"total-data-files": strconv.Itoa(4 * id), "total-records": strconv.Itoa(100_000 * id), "total-delete-files": "0",
			},
		}
		if id > 1 {
			s["parent-snapshot-id"] = id - 1
		}
		updates = append(updates, object{"action": "add-snapshot", "snapshot": s})
	}
	updates = append(updates, object{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": last + snapshots})
	return object{
		"requirements": []any{object{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}},
		"updates":      updates,
	}
}

// histories gives the hot tables and the large one their snapshots.
func (e *endpoint) histories(ctx context.Context, sizes catalogSizes) error {
	var setup operation
	err := setup.measure(sizes.Connections, sizes.Hot, func(i int) error {
		return e.do(ctx, http.MethodPost, tablesPath+tableName(i), nil, appendBody(0, history))
	})
	if err != nil {
		return err
	}
	return errors.Join(err, e.do(ctx, http.MethodPost, tablesPath+sizes.large(), nil, appendBody(0, sizes.Snapshots)))
}

// documents are the sizes of the answers, as they would be without compression.
func (e *endpoint) documents(ctx context.Context, sizes catalogSizes) (map[string]int, error) {
	bytes := map[string]int{}
	for kind, name := range map[string]string{"hot": tableName(sizes.Hot - 1), "large": sizes.large()} {
		answer, err := e.send(ctx, http.MethodGet, tablesPath+name, nil, nil)
		if err != nil {
			return nil, err
		}
		if bytes[kind], err = strconv.Atoi(answer.Get("Content-Length")); err != nil {
			return nil, err
		}
	}
	return bytes, nil
}

// writers know where the tables stand that they append to.
type writers struct {
	*endpoint
	sizes  catalogSizes
	tables [writerTables]struct {
		mu   sync.Mutex
		last int
	}
}

func (w *writers) property(ctx context.Context, table, i int) error {
	return w.do(ctx, http.MethodPost, tablesPath+w.sizes.writer(table), acceptGzip, propertyBody(strconv.Itoa(i)))
}

// append adds one snapshot; appends to one table follow each other.
func (w *writers) append(ctx context.Context, i int) error {
	t := &w.tables[i]
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := w.do(ctx, http.MethodPost, tablesPath+w.sizes.writer(i), acceptGzip, appendBody(t.last, 1)); err != nil {
		return err
	}
	t.last++
	return nil
}
