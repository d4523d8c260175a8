-- What a warehouse says of itself. storage is JSON, NULL for the one whose storage the
-- server's settings name; table_defaults and table_overrides are JSON objects, NULL is
-- empty. version counts the changes: servers that share the database look at it.
ALTER TABLE warehouses ADD COLUMN storage {text};
ALTER TABLE warehouses ADD COLUMN credentials_id BIGINT;
ALTER TABLE warehouses ADD COLUMN table_defaults {text};
ALTER TABLE warehouses ADD COLUMN table_overrides {text};
ALTER TABLE warehouses ADD COLUMN updated_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE warehouses ADD COLUMN version BIGINT NOT NULL DEFAULT 1;
-- Credentials of storage, encrypted (internal/secret) with the key that key_id names.
-- The id stays when they are replaced: rows of purge jobs name it.
CREATE TABLE warehouse_credentials (
    id {serial},
    warehouse_id BIGINT NOT NULL,
    key_id {name:64} NOT NULL,
    ciphertext {bytes} NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    FOREIGN KEY (warehouse_id) REFERENCES warehouses (id)
){table};
CREATE INDEX warehouse_credentials_warehouse ON warehouse_credentials (warehouse_id);
-- Every storage root and allowed location, of all tenants, with a slash at its end: none
-- contains another. warehouse_id is 0 for what is no warehouse's.
CREATE TABLE storage_claims (
    location {name:1101} NOT NULL,
    warehouse_id BIGINT NOT NULL,
    PRIMARY KEY (location)
){table};
CREATE INDEX storage_claims_warehouse ON storage_claims (warehouse_id);
