package metadata

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/apache/iceberg-go/table"
)

// The updates of snapshots, refs and statistics files.

type addSnapshot struct {
	Raw      json.RawMessage `json:"snapshot"`
	snapshot table.Snapshot
}

func (u *addSnapshot) prepare() error {
	var encrypted struct {
		KeyID *string `json:"key-id"`
	}
	if err := json.Unmarshal(u.Raw, &encrypted); err != nil {
		return err
	}
	if encrypted.KeyID != nil {
		return errors.New("encrypted snapshots (key-id) are not supported")
	}
	if err := json.Unmarshal(u.Raw, &u.snapshot); err != nil {
		return err
	}
	if u.snapshot.ManifestList == "" && u.snapshot.ManifestLocations == nil {
		return errors.New("the snapshot has neither manifest-list nor manifests")
	}
	u.Raw = nil
	return nil
}

func (u *addSnapshot) apply(ed *editor) error { return ed.addSnapshot(u.snapshot) }

type removeSnapshots struct {
	IDs []int64 `json:"snapshot-ids"`
}

func (u *removeSnapshots) apply(ed *editor) error { return ed.removeSnapshots(u.IDs) }

type setSnapshotRef struct {
	Name        string        `json:"ref-name"`
	Type        table.RefType `json:"type"`
	SnapshotID  int64         `json:"snapshot-id"`
	RefAge      *int64        `json:"max-ref-age-ms"`
	SnapshotAge *int64        `json:"max-snapshot-age-ms"`
	Keep        *int          `json:"min-snapshots-to-keep"`
}

func (u *setSnapshotRef) prepare() error {
	switch {
	case u.Name == "":
		return errors.New("ref-name is empty")
	case u.Name == table.MainBranch && u.Type != table.BranchRef:
		return errors.New("the ref main must be a branch")
	}
	return nil
}

func (u *setSnapshotRef) apply(ed *editor) error {
	options := listOf(table.WithMaxRefAgeMs)
	if u.RefAge != nil {
		options = append(options, table.WithMaxRefAgeMs(*u.RefAge))
	}
	if u.SnapshotAge != nil {
		options = append(options, table.WithMaxSnapshotAgeMs(*u.SnapshotAge))
	}
	if u.Keep != nil {
		options = append(options, table.WithMinSnapshotsToKeep(*u.Keep))
	}
	if err := ed.b.SetSnapshotRef(u.Name, u.SnapshotID, u.Type, options...); err != nil {
		return err
	}
	ed.refs[u.Name] = u.SnapshotID
	return nil
}

// listOf makes an empty list of what f returns, a type that the library does not export.
func listOf[A, T any](func(A) T) []T { return nil }

type removeSnapshotRef struct {
	Name string `json:"ref-name"`
}

func (u *removeSnapshotRef) apply(ed *editor) error {
	if _, ok := ed.refs[u.Name]; !ok {
		return nil // Java ignores it
	}
	delete(ed.refs, u.Name)
	return ed.b.RemoveSnapshotRef(u.Name)
}

type setStatistics struct {
	SnapshotID *int64               `json:"snapshot-id"` // older clients name it beside the file
	File       table.StatisticsFile `json:"statistics"`
}

func (u *setStatistics) prepare() error {
	if u.SnapshotID != nil && *u.SnapshotID != u.File.SnapshotID {
		return fmt.Errorf("snapshot-id %d differs from that of the file, %d", *u.SnapshotID, u.File.SnapshotID)
	}
	if u.File.StatisticsPath == "" {
		return errors.New("statistics-path is required")
	}
	return nil
}

func (u *setStatistics) apply(ed *editor) error {
	ed.statistics[u.File.SnapshotID] = true
	return ed.b.SetStatistics(u.File)
}

type removeStatistics struct {
	SnapshotID int64 `json:"snapshot-id"`
}

func (u *removeStatistics) apply(ed *editor) error {
	if !ed.statistics[u.SnapshotID] {
		return nil
	}
	delete(ed.statistics, u.SnapshotID)
	return ed.b.RemoveStatistics(u.SnapshotID)
}

type setPartitionStats struct {
	File table.PartitionStatisticsFile `json:"partition-statistics"`
}

func (u *setPartitionStats) prepare() error {
	if u.File.StatisticsPath == "" {
		return errors.New("statistics-path is required")
	}
	return nil
}

func (u *setPartitionStats) apply(ed *editor) error {
	ed.partitionStats[u.File.SnapshotID] = true
	return ed.b.SetPartitionStatistics(u.File)
}

type removePartitionStats struct {
	SnapshotID int64 `json:"snapshot-id"`
}

func (u *removePartitionStats) apply(ed *editor) error {
	if !ed.partitionStats[u.SnapshotID] {
		return nil
	}
	delete(ed.partitionStats, u.SnapshotID)
	return ed.b.RemovePartitionStatistics(u.SnapshotID)
}
