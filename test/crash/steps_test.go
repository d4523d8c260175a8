package crash

import (
	"testing"

	"github.com/lethe-project/lethe/client"
	"github.com/lethe-project/lethe/internal/purge"
)

// stepsOfPurge are the step boundaries of every level.
func stepsOfPurge() (all []string) {
	for _, level := range []purge.Level{purge.Data, purge.Manifests, purge.Lists, purge.Older, purge.Root} {
		for _, step := range []string{purge.StepSave, purge.StepSaved, purge.StepDelete, purge.StepDeleted, purge.StepSettled} {
			all = append(all, level.String()+"."+step)
		}
	}
	return append(all, purge.Root.String()+"."+purge.StepFinish)
}

func TestKilledAtEveryStepOfAPurge(t *testing.T) {
	t.Parallel()
	for _, step := range stepsOfPurge() {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(w *world) {
				w.upTo(step, "--async-purge-delete-batch-size", "2")
				w.namespace()
				w.neighbours()
				victim := w.table("victim")
				before := w.tree(victim)
				job := w.drop("victim")
				w.killed()
				w.up()
				w.ends(job, client.Succeeded)
				w.wantPurged(victim, "victim", before)
				w.load("sibling")
				w.load("victim2")
				w.wantOneRow("victim", client.Succeeded)
			})
		})
	}
}
