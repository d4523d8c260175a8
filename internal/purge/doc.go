// Package purge finds what a dropped table reaches and deletes it, level by level:
//
//	DATA ─▶ MANIFESTS ─▶ LISTS ─▶ METADATA ─▶ ROOT ─▶ leftovers are counted
//
// Invariants:
//   - No level begins while anything below it is unsettled. A file is settled when it
//     was deleted, was missing, or is skipped by a rule; every key has its own answer.
//   - A level's name is committed as the job's phase, under the fence, before its first
//     delete, and the phase never goes back. So a missing manifest means one thing only:
//     below MANIFESTS nobody here deleted it, which is damage; from there on it is done.
//   - Only files under the table's own locations are deleted, never one under another
//     entry's or unsettled job's, and every key is checked against the warehouse's roots.
//     What may be deleted outside of them becomes the job's own first.
//   - What a higher level holds is not deleted below it, whatever spelling names it.
//   - Every run settles something before it yields, and works at least as long as it took
//     to come back to where it stood.
//   - It saves every second, also while it waits for a slow store: by a save a job hears that
//     it shall stop.
//   - What a crash leaves can be reached from the root: a restart walks again, and the
//     cursor is only a short cut.
//   - What it computes, it computes with a turn at the processors (internal/pace), which it
//     gives back before it blocks: requests go first, and a purge always goes on.
//   - Memory does not grow with the number of files: metadata, one manifest and a few
//     batches are held, and duplicates are removed by a bounded exact set.
//
// Failure model: content that was read and can not be decoded (tablefile.UnreadableError), a
// missing or an encrypted manifest or list is damage; all that is readable below is
// deleted, nothing above, and the job ends at once (job.TerminalError). Trouble of the
// store as a whole is a job.OutageError. Everything else, a denial and an own location in
// no storage root of this server included, is an ordinary failure, and the job is tried
// again. A directory that can not be removed is counted and fails nothing. A stop leaves
// open what it interrupts, and costs no attempt.
package purge
