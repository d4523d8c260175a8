-- One row per dropped table or view whose files are to go. Operators query it, so names
-- are a contract (docs/operating.md). namespace is a JSON array of levels, locations a
-- JSON array of the places the table owned when it was dropped, files one of files that
-- its metadata does not lead to (a view's older metadata), file_io_props never holds a
-- secret. Times are milliseconds since the Unix epoch by the database's clock.
CREATE TABLE iceberg_cleanup_job (
    id {serial},
    metalake_name {name:255} NOT NULL,
    catalog_name {name:255} NOT NULL,
    warehouse_id BIGINT NOT NULL,
    namespace {name:1024} NOT NULL,
    table_name {name:255} NOT NULL,
    object_type {name:16} NOT NULL,
    table_uuid {name:36} NOT NULL,
    uuid_key {name:64} NOT NULL,
    table_location {name:1100} NOT NULL,
    locations {text} NOT NULL,
    metadata_location {name:2048} NOT NULL,
    metadata_hash {name:64} NOT NULL,
    files {text} NOT NULL,
    file_io_impl {name:255} NOT NULL,
    file_io_props {text} NOT NULL,
    accept_missing SMALLINT NOT NULL,
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
-- The tombstone's question: 255 + 255 + 1,024 + 255 + 16 bytes, below 2,600.
CREATE INDEX idx_object ON iceberg_cleanup_job (metalake_name, catalog_name, namespace, table_name, state);
CREATE INDEX iceberg_cleanup_job_available ON iceberg_cleanup_job (state, available_at);
CREATE INDEX iceberg_cleanup_job_updated ON iceberg_cleanup_job (state, updated_at);
CREATE INDEX iceberg_cleanup_job_request ON iceberg_cleanup_job (request_id);
CREATE INDEX iceberg_cleanup_job_uuid ON iceberg_cleanup_job (warehouse_id, uuid_key);
CREATE INDEX iceberg_cleanup_job_metadata ON iceberg_cleanup_job (warehouse_id, metadata_hash);
-- Pages of a list, newest first.
CREATE INDEX iceberg_cleanup_job_listed ON iceberg_cleanup_job (metalake_name, catalog_name, state, id);
