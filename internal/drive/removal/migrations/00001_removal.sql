-- One row per tree (TREE) or trashed file (FILE) that is to go. Operators query it. A
-- TREE's root hangs under the trash, by the name of the row's id. Times are milliseconds
-- since the Unix epoch by the database's clock.
CREATE TABLE drive_delete_job (
    id {serial},
    fs_id BIGINT NOT NULL,
    kind {name:8} NOT NULL,
    root_inode BIGINT NOT NULL,
    path {text} NOT NULL,
    origin_parent BIGINT NOT NULL,
    origin_name {name:255} NOT NULL,
    restored_at BIGINT,
    state {name:16} NOT NULL,
    attempts INTEGER NOT NULL,
    stale_reclaims INTEGER NOT NULL,
    outage_since BIGINT,
    lease_epoch BIGINT NOT NULL,
    owner {name:255} NOT NULL,
    heartbeat_at BIGINT,
    available_at BIGINT NOT NULL,
    paused SMALLINT NOT NULL,
    cancel_requested_at BIGINT,
    acked_at BIGINT,
    request_id {name:64} NOT NULL,
    last_error {text} NOT NULL,
    phase {name:32} NOT NULL,
    {q:cursor} {name:255} NOT NULL,
    progress {text} NOT NULL,
    created_by {name:255} NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
){table};
CREATE INDEX drive_delete_job_available ON drive_delete_job (state, available_at);
CREATE INDEX drive_delete_job_updated ON drive_delete_job (state, updated_at);
CREATE INDEX drive_delete_job_request ON drive_delete_job (request_id);
-- Partial on PostgreSQL, so that each answers only those who repeat its condition: where the
-- statistics say that the table is empty they would be taken for the primary key, and read
-- whole for an id.
CREATE INDEX drive_delete_job_listed ON drive_delete_job (fs_id, id){on postgres} WHERE fs_id > 0{end};
CREATE INDEX drive_delete_job_state ON drive_delete_job (fs_id, state, id){on postgres} WHERE fs_id >= 0{end};
CREATE INDEX drive_delete_job_kind ON drive_delete_job (kind, state, available_at);
-- The backstop's leased job, one row per drive that is due for a look.
CREATE TABLE delete_reconcile_pending (
    id {serial},
    fs_id BIGINT NOT NULL,
    rearm_at BIGINT,
    state {name:16} NOT NULL,
    attempts INTEGER NOT NULL,
    stale_reclaims INTEGER NOT NULL,
    outage_since BIGINT,
    lease_epoch BIGINT NOT NULL,
    owner {name:255} NOT NULL,
    heartbeat_at BIGINT,
    available_at BIGINT NOT NULL,
    paused SMALLINT NOT NULL,
    cancel_requested_at BIGINT,
    acked_at BIGINT,
    request_id {name:64} NOT NULL,
    last_error {text} NOT NULL,
    phase {name:32} NOT NULL,
    {q:cursor} {name:255} NOT NULL,
    progress {text} NOT NULL,
    created_by {name:255} NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (fs_id)
){table};
CREATE INDEX delete_reconcile_pending_available ON delete_reconcile_pending (state, available_at);
