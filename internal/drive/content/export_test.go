package content

import "github.com/lethe-project/lethe/internal/sqldb"

// Steps are those that a crash test stops at.
var Steps = []string{
	"write: known", "write: stored", "prepare: known", "prepare: begun", "part: known", "part: stored",
	"complete: joined", "collect: claimed", "collect: looked", "collect: deleted",
}

// AtStore reports whether the upload is one of the store's own.
func (d Draft) AtStore() bool { return d.key != "" }

// Plan is a statement with arguments of its kinds.
type Plan struct {
	Name    string
	Text    sqldb.Statement
	Args    []any
	Sweeper bool // runs on the sweeper's connections
}

// Plans are all statements that must never scan.
func Plans(fs, id int64, key, claim, upload string, ids sqldb.IDs) []Plan {
	keys, uploads := sqldb.Strings{key, key + "2", key + "3"}, sqldb.Strings{upload, upload + "2"}
	return []Plan{
		{"pushTask", pushTask, []any{1, 1, fs, key}, false},
		{"condemnTask", condemnTask, []any{claim, fs, key}, false},
		{"abandonTask", abandonTask, []any{fs, key}, false},
		{"takeTask", takeTask, []any{fs, key}, false},
		{"addReference", addReference, []any{fs, id}, false},
		{"selectContent", selectContent, []any{fs, id}, false},
		{"selectInfo", selectInfo, []any{fs, id}, false},
		{"lockContents", lockContents, []any{ids, fs}, false},
		{"lastContents", lastContents, []any{fs, ids}, true},
		{"lowerReferences", lowerReferences, []any{1, fs, ids}, true},
		{"queueObjects", queueObjects, []any{1, fs, ids}, true},
		{"deleteContents", deleteContents, []any{fs, ids}, true},
		{"selectUpload", selectUpload, []any{fs, upload}, false},
		{"holdUpload", holdUpload, []any{fs, upload}, false},
		{"lockUpload", lockUpload, []any{fs, upload}, false},
		{"listUploads", listUploads, []any{fs, upload, 10}, false},
		{"endUpload", endUpload, []any{"ABORTED", fs, upload}, false},
		{"lockUploadIn", lockUploadIn, []any{fs, ids}, true},
		{"abortUploads", abortUploads, []any{fs, uploads}, true},
		{"selectParts", selectParts, []any{fs, upload}, false},
		{"sumParts", sumParts, []any{fs, upload, 1}, false},
		{"lockPart", lockPart, []any{fs, upload, 1}, false},
		{"updatePart", updatePart, []any{1, "x", "x", "x", fs, upload, 1}, false},
		{"dueUploads", dueUploads, []any{"OPEN", 0, 100}, true},
		{"lockDue", lockDue, []any{fs, uploads}, true},
		{"lockEnded", lockEnded, []any{fs, uploads, "ABORTED"}, true},
		{"queueParts", queueParts, []any{fs, uploads}, true},
		{"deleteParts", deleteParts, []any{fs, uploads}, true},
		{"hurryTasks", hurryTasks, []any{fs, keys}, true},
		{"closeUploads", closeUploads, []any{fs, uploads}, true},
		{"dropUploads", dropUploads, []any{fs, uploads}, true},
		{"claimTasks", claimTasks, []any{claim, 1, 100}, true},
		{"claimedTasks", claimedTasks, []any{claim}, true},
		{"retryTasks", retryTasks, []any{claim, 1, "x", fs, keys, claim}, true},
		{"postponeTasks", postponeTasks, []any{1, "x", claim}, true},
		{"dropNamed", dropNamed, []any{fs, key, claim}, true},
		{"acknowledge", acknowledge, []any{claim}, true},
		{"oldestTask", oldestTask, nil, true},
	}
}
