package tree

import "time"

// Down and Up are the statements that are put together from many names; the others are
// constants.
var (
	Down = downStatements[1:]
	Up   = upStatement
)

// The statements whose plans are tested.
const (
	StatementGet         = getNode
	StatementList        = listNodes
	StatementLockShared  = lockShared
	StatementLock        = lockExclusive
	StatementLockKinds   = lockKinds
	StatementDentries    = dentriesOf
	StatementChildless   = anyChild
	StatementRemove      = removeDentry
	StatementMove        = moveDentry
	StatementRaise       = raiseLinks
	StatementUpdate      = updateFile
	StatementMode        = setMode
	StatementTouch       = touchDir
	StatementTags        = readTags
	StatementTag         = changeTag
	StatementRemoveTag   = removeTag
	StatementChildren    = children
	StatementSlice       = slice
	StatementFilesOf     = filesOf
	StatementFiles       = filesBetween
	StatementLeavesOf    = leavesOf
	StatementLeaves      = leavesBetween
	StatementLockLeaves  = lockLeaves
	StatementDeleteOf    = deleteOf
	StatementDelete      = deleteBetween
	StatementDirectories = directoriesOf
	StatementDeleteDirs  = deleteDirectories
	StatementInodes      = deleteInodes
	StatementLower       = lowerLinks
	StatementDeleteTags  = deleteTags

	StatementInode         = deleteInode
	StatementLowerOne      = lowerLink
	StatementDeleteTagsOf  = deleteTagsOf
	StatementNoteTags      = noteTags
	StatementTimes         = setTimes
	StatementParentsAfter  = parentsAfter
	StatementInodesAfter   = inodesAfter
	StatementPresent       = present
	StatementSizes         = sizes
	StatementNamed         = named
	StatementEntryIs       = entryIs
	StatementDeleteTrashed = deleteTrashed
)

// TouchDue is what TouchDirectory asks before it writes.
func (t *Tree) TouchDue(fs FS, dir Inode, now time.Time) bool {
	return t.touches.due(touched{fs, dir}, now)
}

// Remembered is how many directories TouchDirectory remembers.
func (t *Tree) Remembered() int { return len(t.touches.last) }
