// Package metadata hides the Iceberg library: it parses the metadata of tables and
// views, applies commits and encodes the result. It is pure: bytes in, bytes out; no SQL,
// no store.
//
// Invariants:
//   - A Table, a View and their commits are immutable and may be shared by goroutines. A
//     commit can be checked and applied again and again, so a lost compare-and-swap
//     costs no decode.
//   - Every Table and View that Apply or Build hands out was read back from the very
//     bytes that will be stored: nothing is written that could not be loaded again.
//   - JSON returns the stored document, unknown fields included. A commit writes only
//     what the specification knows.
//   - Where the library and the Java reference differ, Java's behaviour wins.
//
// Failure model: every error is a *fault.Error. Invalid stands for input that can never
// work, a panic inside the library included, with the code Refused when the request is
// well formed and its outcome would not be; Conflict with the code CommitFailed for a
// requirement that does not hold and for a snapshot built on stale state, which the
// client may rebuild and send again. Size and nesting depth are limited before anything
// recursive looks at a document, because a stack overflow cannot be recovered from.
package metadata
