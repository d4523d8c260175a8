-- Tokens are kept by the hash of their text only. grants is a JSON array of Grant. A row
-- stays after its token was revoked, for those who ask who had what.
CREATE TABLE tokens (
    id {serial},
    tenant_id BIGINT NOT NULL,
    name {name:255} NOT NULL,
    hash {name:64} NOT NULL,
    grants {text} NOT NULL,
    created_by {name:255} NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    UNIQUE (hash),
    FOREIGN KEY (tenant_id) REFERENCES tenants (id)
){table};
CREATE INDEX tokens_tenant ON tokens (tenant_id, id);
