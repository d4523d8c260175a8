-- Every metadata file that a view had: view metadata names no older files, so a purge
-- could not find them otherwise.
-- compatible from 1
CREATE TABLE view_files (
    tabular_id BIGINT NOT NULL,
    location_hash {name:64} NOT NULL,
    location {name:2048} NOT NULL,
    PRIMARY KEY (tabular_id, location_hash)
){table};
