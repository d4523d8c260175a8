-- Where the objects of all drives lie, and the mark of that place: another one, or an
-- empty directory in its stead, would look as if every object had been deleted.
CREATE TABLE drive_storage (
    id SMALLINT NOT NULL PRIMARY KEY,
    root {name:1101} NOT NULL,
    marker {name:64} NOT NULL
){table};
