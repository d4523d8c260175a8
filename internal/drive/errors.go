package drive

import (
	"strings"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
)

// Codes of this room's errors. Those of the rooms below pass through it.
const (
	CodeNotFound           fault.Code = "NotFound"           // NotFound
	CodeAlreadyExists      fault.Code = "AlreadyExists"      // Conflict
	CodeIsDirectory        fault.Code = "IsDirectory"        // Conflict
	CodeNotDirectory       fault.Code = "NotDirectory"       // Conflict; to a reader NotFound
	CodeDirectoryNotEmpty  fault.Code = "DirectoryNotEmpty"  // Conflict
	CodeIntoItself         fault.Code = "IntoItself"         // Conflict: a directory below itself
	CodeNotFile            fault.Code = "NotFile"            // Conflict: the operation wants a file
	CodePreconditionFailed fault.Code = "PreconditionFailed" // Precondition
	CodeSymlinkLoop        fault.Code = "SymlinkLoop"        // Conflict
	CodeConcurrentChange   fault.Code = "ConcurrentChange"   // Conflict: the file changed while it was appended to
	CodeFileChanged        fault.Code = "FileChanged"        // Busy: the file was changed while it was opened
	CodeTreeBusy           fault.Code = "TreeBusy"           // Busy: it moved under every try
	CodeWriteExpired       fault.Code = "WriteExpired"       // Busy: the bytes came too slowly and were collected
	CodeUploadBaseGone     fault.Code = "UploadBaseGone"     // Conflict: the upload's directory was removed
	CodeCopyDirectory      fault.Code = "CopyDirectory"      // Unsupported
	CodeRange              fault.Code = "RangeNotSatisfiable"
	CodeInvalidTag         fault.Code = "InvalidTag"
	CodeTooManyTags        fault.Code = "TooManyTags"   // Conflict: the entry would have too many
	CodeInvalidTarget      fault.Code = "InvalidTarget" // Invalid: text of a symbolic link
	CodeInvalidPath                   = tree.CodeInvalidPath
)

func notFound(op string, path tree.Path) error {
	return fault.New(op, fault.NotFound, CodeNotFound, "%s does not exist", path)
}

func exists(op string, path tree.Path) error {
	return fault.New(op, fault.Conflict, CodeAlreadyExists, "%s exists already", path)
}

func isDirectory(op string, path tree.Path) error {
	return fault.New(op, fault.Conflict, CodeIsDirectory, "%s is a directory", path)
}

func notDirectory(op string, path tree.Path) error {
	return fault.New(op, fault.Conflict, CodeNotDirectory, "%s is not a directory", path)
}

func notEmpty(op string, path tree.Path) error {
	return fault.New(op, fault.Conflict, CodeDirectoryNotEmpty, "the directory %s is not empty", path)
}

func isRoot(op string) error {
	return fault.New(op, fault.Invalid, CodeInvalidPath, "the root of a drive can not be the object of this operation")
}

func unmet(op, format string, args ...any) error {
	return fault.New(op, fault.Precondition, CodePreconditionFailed, format, args...)
}

// matches tells whether an If-Match header's value holds for what exists with an ETag.
// Weak ETags never match (RFC 9110, section 13.1.1).
func matches(header, etag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || candidate == etag {
			return true
		}
	}
	return false
}

// require checks an If-Match header's value; empty is no condition. What does not exist
// matches nothing.
func require(op, header string, node tree.Node, found bool, path tree.Path) error {
	switch {
	case header == "":
		return nil
	case !found:
		return unmet(op, "%s does not exist, so it does not match", path)
	case !matches(header, etagOf(node)):
		return unmet(op, "%s is %s now", path, etagOf(node))
	}
	return nil
}
