-- The marker of each storage root that can be mistaken for an empty one, as it was when
-- the root was first used.
-- compatible from 1
CREATE TABLE warehouse_roots (
    warehouse_id BIGINT NOT NULL,
    root {name:1100} NOT NULL,
    marker {name:64} NOT NULL,
    PRIMARY KEY (warehouse_id, root),
    FOREIGN KEY (warehouse_id) REFERENCES warehouses (id)
){table};
