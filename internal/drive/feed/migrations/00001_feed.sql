-- What a drive uses, kept as deltas that are folded into the total; quotas of 0 are none.
-- The row of usage_total is also the lease of the one who folds and numbers.
CREATE TABLE usage_total (
    fs_id BIGINT NOT NULL PRIMARY KEY,
    bytes BIGINT NOT NULL,
    files BIGINT NOT NULL,
    quota_bytes BIGINT NOT NULL,
    quota_files BIGINT NOT NULL,
    next_seq BIGINT NOT NULL,
    reserved BIGINT NOT NULL,
    oldest_seq BIGINT NOT NULL,
    full_due_at BIGINT NOT NULL
){table};
CREATE TABLE usage_delta (
    id {serial},
    fs_id BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    files BIGINT NOT NULL,
    reserved BIGINT NOT NULL
){table};
CREATE INDEX usage_delta_fs ON usage_delta (fs_id, id);
-- seq is 0 until the sequencer has numbered the event; readers see numbered ones only.
CREATE TABLE fs_events (
    id {serial},
    fs_id BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    kind {name:32} NOT NULL,
    parent_id BIGINT NOT NULL,
    name {name:255} NOT NULL,
    inode_id BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    path {text} NOT NULL,
    from_path {text} NOT NULL,
    actor {name:255} NOT NULL,
    created_at BIGINT NOT NULL
){table};
CREATE INDEX fs_events_seq ON fs_events (fs_id, seq, id);
-- Partial on PostgreSQL, which would otherwise read the events of all drives after a number
-- in it, where the statistics say that there are few.
CREATE INDEX fs_events_new ON fs_events (seq, fs_id){on postgres} WHERE seq = 0{end};
CREATE INDEX fs_events_age ON fs_events (created_at);
CREATE INDEX usage_total_audit ON usage_total (full_due_at);
