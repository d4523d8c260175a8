package server

import (
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/job"
)

// DriveSettings describe the drives of all tenants.
type DriveSettings struct {
	Storage               string        `name:"drive-storage" help:"Where the contents of files lie: a directory, a file:// URL or an s3:// URL as of storage. Empty means beside the tables: DATA/drive, or the storage that was named, with -drive at its end." placeholder:"URL"`
	InlineBytes           int           `name:"inline-bytes" default:"4096" help:"Longest file that is kept in the database, in bytes. 0 keeps none there." placeholder:"N"`
	TrashRetention        time.Duration `name:"trash-retention" default:"0s" help:"How long deleted files and trees can be restored. 0s means that there is no trash." placeholder:"DURATION"`
	GCGrace               time.Duration `name:"gc-grace" default:"10m" help:"How long the bytes of a deleted file stay for those who are reading them." placeholder:"DURATION"`
	WriteTimeout          time.Duration `name:"write-timeout" default:"15m" help:"A write that gave no sign of life for so long is collected." placeholder:"DURATION"`
	UploadExpiry          time.Duration `name:"upload-expiry" default:"24h" help:"How long an upload in parts may take." placeholder:"DURATION"`
	EventRetention        time.Duration `name:"event-retention" default:"24h" help:"How long events can be read again." placeholder:"DURATION"`
	ReconcileInterval     time.Duration `name:"reconcile-interval" default:"10m" help:"How long after a recursive delete a drive is looked through for what it left." placeholder:"DURATION"`
	ReconcileFullInterval time.Duration `name:"reconcile-full-interval" default:"168h" help:"How often a drive is looked through when nothing was deleted." placeholder:"DURATION"`
}

// DriveDeleteSettings bound the recursive deletes of drives; reconcile and the collector of
// contents use them too.
type DriveDeleteSettings struct {
	BatchSize          int           `name:"batch-size" default:"1000" help:"Files and directories that one transaction deletes, 1 to 1000; 500 at most on MySQL and MariaDB." placeholder:"N"`
	WaitMS             int           `name:"wait-ms" default:"2000" help:"How long a recursive delete is waited for before 202 is answered." placeholder:"N"`
	WorkerThreads      int           `name:"worker-threads" default:"2" help:"Trees swept at a time." placeholder:"N"`
	PollIntervalMS     int           `name:"poll-interval-ms" default:"5000" help:"How often a free worker looks for work it was not told of." placeholder:"N"`
	HeartbeatTimeoutMS int           `name:"heartbeat-timeout-ms" default:"300000" help:"Silence after which another server takes a sweep over." placeholder:"N"`
	MaxAttempts        int           `name:"max-attempts" default:"5" help:"Failures in a row, without progress, that end a sweep as FAILED." placeholder:"N"`
	RetentionHours     int           `name:"retention-hours" default:"720" help:"How long ended deletes are kept." placeholder:"N"`
	RetryBaseMS        int           `name:"retry-base-ms" default:"10000" help:"First wait between attempts; it grows fourfold, up to 30 minutes." placeholder:"N"`
	OutageGrace        time.Duration `name:"outage-grace" default:"1h" help:"How long trouble of the whole database or store does not count as failed attempts." placeholder:"DURATION"`
	Quantum            time.Duration `name:"quantum" default:"30s" help:"How long a sweep may run while others wait." placeholder:"DURATION"`
}

// JobConfig returns the bounds of the engine that sweeps.
func (d *DriveDeleteSettings) JobConfig() job.Config {
	return job.Config{
		Workers:          d.WorkerThreads,
		PollInterval:     time.Duration(d.PollIntervalMS) * time.Millisecond,
		HeartbeatTimeout: time.Duration(d.HeartbeatTimeoutMS) * time.Millisecond,
		MaxAttempts:      d.MaxAttempts,
		RetryBase:        time.Duration(d.RetryBaseMS) * time.Millisecond,
		OutageGrace:      d.OutageGrace,
		Quantum:          d.Quantum,
		Retention:        time.Duration(d.RetentionHours) * time.Hour,
	}
}

// Wait returns how long a recursive delete is waited for.
func (d *DriveDeleteSettings) Wait() time.Duration {
	return time.Duration(d.WaitMS) * time.Millisecond
}

func (v *validator) drive(s *Settings) {
	d, rm := &s.Drive, &s.DriveDelete
	// Beside a storage that is wrong itself there is nothing to say.
	_, wrong := s.storagePlace()
	if _, err := s.drivePlace(); err != nil && (d.Storage != "" || wrong == nil) {
		v.bad("drive-storage", "%w", err)
	}
	v.least("inline-bytes", int64(d.InlineBytes), 0)
	if d.InlineBytes > 1<<20 {
		v.bad("inline-bytes", "is %d, must be at most 1048576", d.InlineBytes)
	}
	v.notNegative("trash-retention", d.TrashRetention)
	for key, value := range map[string]time.Duration{
		"gc-grace": d.GCGrace, "write-timeout": d.WriteTimeout, "upload-expiry": d.UploadExpiry, "event-retention": d.EventRetention,
		"reconcile-interval": d.ReconcileInterval, "reconcile-full-interval": d.ReconcileFullInterval,
		"drive-delete.outage-grace": rm.OutageGrace, "drive-delete.quantum": rm.Quantum,
	} {
		v.positive(key, value)
	}
	v.least("drive-delete.batch-size", int64(rm.BatchSize), 1)
	if rm.BatchSize > 1000 {
		v.bad("drive-delete.batch-size", "is %d, must be at most 1000", rm.BatchSize)
	}
	v.least("drive-delete.wait-ms", int64(rm.WaitMS), 0)
	v.span("drive-delete.wait-ms", rm.WaitMS)
	for key, value := range map[string]int{
		"drive-delete.worker-threads": rm.WorkerThreads, "drive-delete.poll-interval-ms": rm.PollIntervalMS,
		"drive-delete.heartbeat-timeout-ms": rm.HeartbeatTimeoutMS, "drive-delete.max-attempts": rm.MaxAttempts,
		"drive-delete.retention-hours": rm.RetentionHours, "drive-delete.retry-base-ms": rm.RetryBaseMS,
	} {
		least := int64(1)
		if strings.HasSuffix(key, "heartbeat-timeout-ms") {
			least = 100
		}
		v.least(key, int64(value), least)
		v.span(key, value)
	}
}
