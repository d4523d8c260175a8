-- Tenants and their warehouses. A warehouse row is also the lock that explicit
-- locations, registers and namespace creations take (catalog, lock table).
CREATE TABLE tenants (
    id {serial},
    name {name:255} NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (name)
){table};
CREATE TABLE warehouses (
    id {serial},
    tenant_id BIGINT NOT NULL,
    name {name:255} NOT NULL,
    root {name:1100} NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (tenant_id, name),
    FOREIGN KEY (tenant_id) REFERENCES tenants (id)
){table};
