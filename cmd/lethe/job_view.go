package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lethe-project/lethe/client"
)

// stateOf is the state with what else a person must know of it.
func stateOf(job client.Job) string {
	words := []string{string(job.State)}
	if job.Paused {
		words = append(words, "paused")
	}
	if job.CancelRequested && job.State == client.Running {
		words = append(words, "cancelling")
	}
	if job.Acked {
		words = append(words, "acked")
	}
	if restored(job) {
		words = append(words, "restored")
	}
	return strings.Join(words, ",")
}

// objectOf is what the job deletes: a path of the drive, or a table or view.
func objectOf(job client.Job) string {
	if job.Object.Path != "" {
		return job.Object.Path
	}
	return job.Object.Identifier().String()
}

// deleted tells what is gone.
func deleted(counts client.Counts) string {
	noun := "files"
	if counts.Files == 1 {
		noun = "file"
	}
	directories := ""
	if counts.Directories > 0 {
		directories = ", " + counted(counts.Directories, "directory", "directories")
	}
	return fmt.Sprintf("%s %s%s, %s", count(counts.Files), noun, directories, size(counts.Bytes))
}

// summary tells the counts, leaving out those that are zero.
func summary(counts client.Counts) string {
	parts := []string{deleted(counts)}
	for _, part := range []struct {
		n    int64
		text string
	}{
		{counts.Missing, "missing"},
		{counts.SkippedTotal(), "skipped"},
		{counts.Failed, "failed"},
		{counts.Damaged, "damaged"},
		{counts.DirectoriesLeft, "directories not removed"},
	} {
		if part.n != 0 {
			parts = append(parts, count(part.n)+" "+part.text)
		}
	}
	if n := leftovers(counts); n != "" {
		parts = append(parts, n+" left over")
	}
	return strings.Join(parts, ", ")
}

// leftovers tells how many files were found afterwards, as far as that is known.
func leftovers(counts client.Counts) string {
	switch {
	case counts.LeftoversUnknown:
		return "an unknown number"
	case counts.LeftoversMore:
		return "more than " + count(counts.Leftovers)
	case counts.Leftovers != 0:
		return count(counts.Leftovers)
	}
	return ""
}

// closes reports whether a job drops a warehouse or a tenant: what is deleted there, other
// jobs count.
func closes(job client.Job) bool {
	return job.Object.Type == "WAREHOUSE" || job.Object.Type == "TENANT"
}

// restored reports whether what the job was to delete is back: there is nothing to do any
// more.
func restored(job client.Job) bool { return job.Phase == "RESTORED" }

// line is the job on one line, for those who wait.
func line(job client.Job) string {
	if closes(job) {
		return printable(fmt.Sprintf("%s %s: %s %s", job.Job, stateOf(job), strings.ToLower(job.Object.Type), objectOf(job)))
	}
	phase := ""
	if job.Phase != "" && !job.State.Ended() {
		phase = " " + job.Phase
	}
	return printable(fmt.Sprintf("%s %s%s: %s", job.Job, stateOf(job), phase, summary(job.Counts())))
}

// showJob writes everything a person wants to know of a job.
func (c *console) showJob(job client.Job) error {
	out := c.rows()
	add := func(name, value string) {
		if value != "" {
			out.add(name, value)
		}
	}
	counts := job.Counts()
	add("job", job.Job)
	add("state", stateOf(job))
	add("object", strings.ToLower(job.Object.Type)+" "+objectOf(job))
	add("warehouse", job.Object.Warehouse)
	add("location", job.Object.Location)
	if counts.Size > 0 {
		add("size", size(counts.Size))
	}
	add("phase", job.Phase)
	if !closes(job) {
		add("deleted", deleted(counts))
	}
	for _, n := range []struct {
		name string
		n    int64
	}{
		{"missing", counts.Missing},
		{"accepted", counts.Accepted},
		{"failed", counts.Failed},
		{"damaged", counts.Damaged},
		{"dirs left", counts.DirectoriesLeft},
	} {
		if n.n != 0 {
			add(n.name, count(n.n))
		}
	}
	add("left over", leftovers(counts))
	for _, reason := range slices.Sorted(maps.Keys(counts.Skipped)) {
		add("skipped", count(counts.Skipped[reason])+" "+reason)
	}
	for _, note := range counts.Notes {
		add("note", note)
	}
	add("attempts", strconv.Itoa(job.Attempts))
	add("last error", job.LastError)
	add("owner", job.Owner)
	add("created", strings.TrimSpace(moment(job.CreatedAt)+" by "+job.CreatedBy))
	add("updated", moment(job.UpdatedAt))
	if job.State == client.Pending {
		add("runs from", moment(job.AvailableAt))
	}
	if err := out.flush(); err != nil {
		return err
	}
	if (job.State == client.Failed || job.State == client.Cancelled) && !job.Acked && !restored(job) {
		c.note("Run it again with lethe job retry %[1]s, or leave its files with lethe job ack %[1]s", job.Job)
	}
	return nil
}
