package metadata

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
)

// FuzzView reads any file and goes on with what was accepted.
func FuzzView(f *testing.F) {
	for _, tc := range hostileViews {
		f.Add([]byte(tc.doc))
	}
	packed, err := viewWithHistory(f).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Add(newView(f).JSON())
	f.Add(viewWithHistory(f, `"version.history.num-entries":"1"`).JSON())
	f.Add([]byte(minimalView()))
	f.Add([]byte(minimalView(`"properties":{"version.history.num-entries":"0","write.metadata.compression-codec":"lz4"}`)))
	commits := viewProbes(f)
	limits := Limits{MaxBytes: 1 << 20}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ParseView(data, limits)
		if err != nil {
			onlyFaults(t, err)
			return
		}
		probeView(t, got, commits)
	})
}

// FuzzViewCommit sends any body, as a commit and as a create.
func FuzzViewCommit(f *testing.F) {
	for _, tc := range viewUpdateCases {
		f.Add(body(`{"type":"assert-view-uuid","uuid":"`+testUUID+`"}`, tc.updates...))
	}
	f.Add(createViewBody(versionJSON(1, 0, "spark: select 1"), `"properties":{"a":"b"}`))
	f.Add(createViewBody(versionJSON(1, 0, "spark: select 1", "trino: x"), `"location":"s3://b/v"`))
	bases := []*View{newView(f), viewWithHistory(f), viewWithHistory(f, allowDrop, `"version.history.num-entries":"1"`)}
	limits := Limits{MaxBytes: 1 << 20}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := DecodeCreateView(body, limits)
		onlyFaults(t, err)
		if err == nil {
			made, err := req.Build(viewLocation, uuid.MustParse(testUUID))
			onlyFaults(t, err)
			if err == nil {
				viewReadsBack(t, made)
			}
		}
		c, err := DecodeViewCommit(body, limits)
		if err != nil {
			onlyFaults(t, err)
			return
		}
		onlyFaults(t, c.Check(nil))
		for _, base := range bases {
			applyProbe(t, base, c)
		}
	})
}

// viewProbes are commits that fit most views.
func viewProbes(tb testing.TB) []*ViewCommit {
	tb.Helper()
	return []*ViewCommit{
		decodeViewCommit(tb, body("", setViewProperties(allowDrop, `"version.history.num-entries":"3"`))),
		decodeViewCommit(tb, body("", setViewProperties(allowDrop), schemaUpdate(otherSchema), addVersionJSON(1, -1, "spark: select 9"), setCurrentJSON(-1))),
		decodeViewCommit(tb, body(`{"type":"assert-view-uuid","uuid":"`+testUUID+`"}`, `{"action":"set-location","location":"s3://b/x"}`)),
	}
}

func probeView(t *testing.T, v *View, commits []*ViewCommit) (applied int) {
	t.Helper()
	_, _, _, _ = v.UUID(), v.Locations(), v.MetadataDir(), v.CurrentVersionID()
	for _, c := range commits {
		applied += applyProbe(t, v, c)
	}
	return applied
}

func applyProbe(t *testing.T, base *View, c *ViewCommit) (applied int) {
	t.Helper()
	before := bytes.Clone(base.JSON())
	onlyFaults(t, c.Check(base))
	res, err := c.Apply(base)
	onlyFaults(t, err)
	if !bytes.Equal(before, base.JSON()) {
		t.Fatal("the base changed")
	}
	if err != nil || !res.Changed {
		return 0
	}
	viewReadsBack(t, res.View)
	again, err := c.Apply(base)
	if err != nil || again.View.CurrentVersionID() != res.View.CurrentVersionID() {
		t.Fatalf("the commit changed: %v", err)
	}
	return 1
}

func TestMutantsOfViews(t *testing.T) {
	t.Parallel()
	docs := [][]byte{viewWithHistory(t, `"comment":"x"`, `"version.history.num-entries":"2"`).JSON(), newView(t).JSON(), []byte(minimalView())}
	commits := viewProbes(t)
	rng := rand.New(rand.NewPCG(5, 6))
	parsed, applied := 0, 0
	for range *mutants {
		got, err := ParseView(mutant(t, rng, docs[rng.IntN(len(docs))]), Limits{})
		if err != nil {
			onlyFaults(t, err)
			continue
		}
		parsed++
		applied += probeView(t, got, commits)
	}
	t.Logf("%d parsed, %d commits applied", parsed, applied)
	if parsed == 0 || applied == 0 {
		t.Error("every mutant was refused: the test tests nothing")
	}
}

func TestMutantsOfViewCommits(t *testing.T) {
	t.Parallel()
	bases := []*View{newView(t), viewWithHistory(t), viewWithHistory(t, allowDrop)}
	rng := rand.New(rand.NewPCG(7, 8))
	decoded, applied := 0, 0
	for range *mutants {
		tc := viewUpdateCases[rng.IntN(len(viewUpdateCases))]
		data := mutant(t, rng, body(`{"type":"assert-view-uuid","uuid":"`+testUUID+`"}`, tc.updates...))
		c, err := DecodeViewCommit(data, Limits{})
		if err != nil {
			onlyFaults(t, err)
			continue
		}
		decoded++
		applied += applyProbe(t, bases[rng.IntN(len(bases))], c)
	}
	t.Logf("%d decoded, %d applied", decoded, applied)
	if decoded == 0 || applied == 0 {
		t.Error("every mutant was refused: the test tests nothing")
	}
}

func TestMutantsOfViewCreates(t *testing.T) {
	t.Parallel()
	plain := createViewBody(versionJSON(1, 7, "spark: select 1", "trino: select 2"), `"properties":{"comment":"x"}`, `"location":"s3://b/v"`)
	rng := rand.New(rand.NewPCG(9, 10))
	made := 0
	for range *mutants {
		req, err := DecodeCreateView(mutant(t, rng, plain), Limits{})
		if err != nil {
			onlyFaults(t, err)
			continue
		}
		v, err := req.Build(viewLocation, uuid.MustParse(testUUID))
		onlyFaults(t, err)
		if err == nil {
			made++
			viewReadsBack(t, v)
		}
	}
	if made == 0 {
		t.Error("every mutant was refused: the test tests nothing")
	}
}
