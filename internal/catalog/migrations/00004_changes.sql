-- One row for each change, written by its own transaction: whether an ambiguous COMMIT
-- was applied is read back here. Old rows are removed.
-- compatible from 1
CREATE TABLE catalog_changes (
    request_id {name:64} NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (request_id)
){table};
CREATE INDEX catalog_changes_created ON catalog_changes (created_at);
