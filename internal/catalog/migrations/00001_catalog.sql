-- No foreign key names warehouses: its check would lock the row that explicit locations
-- take exclusively, and put plain creates in line behind them.
-- Names compare by bytes. namespaces.name is a JSON array of levels. parent_id 0 is
-- the top of a warehouse.
CREATE TABLE namespaces (
    id {serial},
    warehouse_id BIGINT NOT NULL,
    parent_id BIGINT NOT NULL,
    name {name:1024} NOT NULL,
    location {name:1100} NOT NULL,
    properties {text} NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (warehouse_id, name)
){table};
CREATE INDEX namespaces_parent ON namespaces (warehouse_id, parent_id, name);
-- kind: 1 table, 2 view; both share one name space. metadata_hash is the SHA-256 of
-- metadata_location in hex, uuid_key the key of table_uuids.
CREATE TABLE tabulars (
    id {serial},
    warehouse_id BIGINT NOT NULL,
    namespace_id BIGINT NOT NULL,
    kind SMALLINT NOT NULL,
    name {name:255} NOT NULL,
    uuid {name:36} NOT NULL,
    uuid_key {name:64} NOT NULL,
    location {name:1100} NOT NULL,
    metadata_location {name:2048} NOT NULL,
    metadata_hash {name:64} NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (namespace_id, name),
    FOREIGN KEY (namespace_id) REFERENCES namespaces (id)
){table};
CREATE INDEX tabulars_uuid ON tabulars (warehouse_id, uuid_key);
CREATE INDEX tabulars_metadata ON tabulars (warehouse_id, metadata_hash);
-- location ends in a slash. owner_kind: 1 namespace, 2 entry of tabulars, 3 unsettled
-- row of iceberg_cleanup_job.
CREATE TABLE tabular_locations (
    warehouse_id BIGINT NOT NULL,
    location {name:1101} NOT NULL,
    owner_kind SMALLINT NOT NULL,
    owner_id BIGINT NOT NULL,
    PRIMARY KEY (warehouse_id, location, owner_kind, owner_id)
){table};
CREATE INDEX tabular_locations_owner ON tabular_locations (owner_kind, owner_id);
CREATE TABLE table_uuids (
    warehouse_id BIGINT NOT NULL,
    uuid_key {name:64} NOT NULL,
    PRIMARY KEY (warehouse_id, uuid_key)
){table};
