package metadata

import "testing"

// BenchmarkHistory measures a table of 2,000 snapshots, about 400 kB.
func BenchmarkHistory(b *testing.B) {
	const snapshots = 2000
	updates := make([]string, 0, snapshots+1)
	for i := range int64(snapshots) {
		updates = append(updates, addSnapshotJSON(2, i+1, i, i+1))
	}
	t := mustApply(b, emptyTable(b, 2), append(updates, setRefJSON("main", "branch", snapshots))...)
	c := decodeCommit(b, body("", addSnapshotJSON(2, 5000, snapshots, snapshots+1), setRefJSON("main", "branch", 5000)))
	b.Run("parse", func(b *testing.B) {
		b.SetBytes(int64(len(t.JSON())))
		for b.Loop() {
			if _, err := Parse(t.JSON(), Limits{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("apply", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Apply(t, "s3://x"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			_, _ = t.JSON(), t.RefsOnlyJSON()
		}
	})
}
