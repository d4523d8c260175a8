// Package sqldb opens the product's databases and hides what differs between them:
// SQLite (embedded, one in-process FIFO writer), PostgreSQL, and MySQL/MariaDB (TiDB by
// its protocol).
//
// Queries are written once, as Statement constants with ? placeholders and a few
// {tokens} that the Dialect renders (see Dialect). All writes go through DB.Tx: READ
// COMMITTED (BEGIN IMMEDIATE on SQLite), bounded lock waits, retry of deadlock,
// serialization, busy and lock-wait errors, and ambiguous commits that are read back
// by the caller's Confirm look, never guessed. Reads and transactions end within
// Config.Timeout, whatever the database does.
//
// Failure model: a transaction that returns nil was committed. An error that
// errors.Is ErrCommitUnknown may have been committed; any other error means that
// surely nothing was applied.
package sqldb
