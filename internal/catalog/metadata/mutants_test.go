package metadata

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// mutants is raised by hand for a long hunt: go test -run Mutants -mutants 1000000.
var mutants = flag.Int("mutants", 2000, "documents that each mutation test tries")

// mutate changes one random node of a JSON tree: plain fuzzing rarely gets past the
// decoder, so this keeps the syntax and spoils the meaning.
func mutate(rng *rand.Rand, node any) any {
	switch v := node.(type) {
	case map[string]any:
		if len(v) > 0 && rng.IntN(8) > 0 {
			keys := make([]string, 0, len(v))
			for key := range v {
				keys = append(keys, key)
			}
			slices.Sort(keys)
			key := keys[rng.IntN(len(keys))]
			switch rng.IntN(12) {
			case 0:
				delete(v, key)
			case 1:
				v[keys[rng.IntN(len(keys))]] = v[key]
			default:
				v[key] = mutate(rng, v[key])
			}
			return v
		}
	case []any:
		if len(v) > 0 && rng.IntN(8) > 0 {
			i := rng.IntN(len(v))
			switch rng.IntN(12) {
			case 0:
				return slices.Delete(v, i, i+1)
			case 1:
				return append(v, v[i])
			case 2:
				return append(v, nil)
			default:
				v[i] = mutate(rng, v[i])
			}
			return v
		}
	}
	values := []any{
		nil, true, "", "x", "-1", json.Number("-1"), json.Number("0"), json.Number("1"), json.Number("3"), json.Number("1.5"),
		json.Number("2147483647"), json.Number("9223372036854775807"), json.Number("-9223372036854775808"), json.Number("1e400"),
		[]any{},
		[]any{nil},
		map[string]any{},
		"main", "branch", "tag", "long", "decimal(99,-1)", "fixed[-1]", "bucket[0]", "void",
		"truncate[99999999999999]",
		map[string]any{"type": "list", "element-id": nil, "element": "map"},
		map[string]any{"type": "struct", "fields": []any{nil}},
	}
	return values[rng.IntN(len(values))]
}

func mutant(t *testing.T, rng *rand.Rand, doc []byte) []byte {
	t.Helper()
	var tree any
	dec := json.NewDecoder(strings.NewReader(string(doc)))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	for range 1 + rng.IntN(3) {
		tree = mutate(rng, tree)
	}
	out, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMutantsOfMetadata(t *testing.T) {
	t.Parallel()
	var docs [][]byte
	for _, version := range formats {
		full := tableWithHistory(t, version)
		rich := mustApply(t, full, schemaUpdate(widerSchema), `{"action":"set-current-schema","schema-id":-1}`,
			`{"action":"add-spec","spec":{"fields":[{"source-id":2,"name":"day","transform":"day"}]}}`,
			`{"action":"add-sort-order","sort-order":{"order-id":9,"fields":[{"source-id":3,"transform":"identity","direction":"asc","null-order":"nulls-first"}]}}`)
		docs = append(docs, rich.JSON(), []byte(minimal(version, `"properties":{"a":"b"}`)))
	}
	commits := []*Commit{
		decodeCommit(t, body("", `{"action":"set-properties","updates":{"k":"v"}}`)),
		decodeCommit(t, body("", `{"action":"remove-snapshots","snapshot-ids":[11,12,13]}`)),
		decodeCommit(t, body("", addSnapshotJSON(3, 20, 0, 9), setRefJSON("main", "branch", 20))),
		decodeCommit(t, body("", schemaUpdate(sameSchema), `{"action":"upgrade-format-version","format-version":3}`)),
	}
	rng := rand.New(rand.NewPCG(1, 2))
	parsed, applied := 0, 0
	for range *mutants {
		data := mutant(t, rng, docs[rng.IntN(len(docs))])
		got, err := Parse(data, Limits{})
		if err != nil {
			onlyFaults(t, err)
			continue
		}
		parsed++
		if _, err := Parse(got.RefsOnlyJSON(), Limits{}); err != nil {
			t.Fatalf("refs only: %v\n%s", err, data)
		}
		for _, c := range commits {
			onlyFaults(t, c.Check(got))
			res, err := c.Apply(got, "s3://x")
			onlyFaults(t, err)
			if err == nil {
				applied++
				readsBack(t, res.Table)
			}
		}
	}
	t.Logf("%d parsed, %d commits applied", parsed, applied)
	if parsed == 0 || applied == 0 {
		t.Error("every mutant was refused: the test tests nothing")
	}
}

func TestMutantsOfCommits(t *testing.T) {
	t.Parallel()
	var bases []*Table
	for _, version := range formats {
		bases = append(bases, tableWithHistory(t, version))
	}
	rng := rand.New(rand.NewPCG(3, 4))
	decoded, applied := 0, 0
	for range *mutants {
		base := bases[rng.IntN(len(bases))]
		tc := updateCases[rng.IntN(len(updateCases))]
		data := mutant(t, rng, body(`{"type":"assert-ref-snapshot-id","ref":"main","snapshot-id":13}`, tc.updates(base.FormatVersion())...))
		c, err := DecodeCommit(data, Limits{})
		if err != nil {
			onlyFaults(t, err)
			continue
		}
		decoded++
		onlyFaults(t, c.Check(base))
		onlyFaults(t, c.Check(nil))
		res, err := c.Apply(base, "s3://x")
		onlyFaults(t, err)
		if err == nil {
			applied++
			readsBack(t, res.Table)
		}
	}
	t.Logf("%d decoded, %d applied", decoded, applied)
	if decoded == 0 || applied == 0 {
		t.Error("every mutant was refused: the test tests nothing")
	}
}
