-- One row per warehouse or tenant that is being dropped with everything in it. kind is
-- WAREHOUSE or TENANT; name is the warehouse's, empty for a tenant.
CREATE TABLE server_job (
    id {serial},
    kind {name:16} NOT NULL,
    tenant_id BIGINT NOT NULL,
    tenant_name {name:255} NOT NULL,
    name {name:255} NOT NULL,
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
CREATE INDEX server_job_available ON server_job (state, available_at);
CREATE INDEX server_job_updated ON server_job (state, updated_at);
CREATE INDEX server_job_request ON server_job (request_id);
CREATE INDEX server_job_object ON server_job (tenant_id, name, state);
