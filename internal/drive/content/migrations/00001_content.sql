-- No second index has fs_id: without good statistics PostgreSQL would take it for
-- the primary key, and read all of a drive.
--
-- The bytes of files, shared by reference count. Inline ones stand in the row, others in
-- the object of object_key, which is never used again. sha256 is in hexadecimal.
CREATE TABLE contents (
    fs_id BIGINT NOT NULL,
    content_id BIGINT NOT NULL,
    refs BIGINT NOT NULL,
    size BIGINT NOT NULL,
    sha256 {name:64} NOT NULL,
    inline_bytes {bytes},
    object_key {name:255},
    created_at BIGINT NOT NULL,
    PRIMARY KEY (fs_id, content_id)
){clustered};
CREATE INDEX contents_object ON contents (object_key);
-- Every object that no row names, or may not name yet: it is deleted when it is due. A
-- claim makes it due again after the collector's lease, and is never undone: it passes to
-- the next collector. multipart is 1 where the store may hold parts of an upload of it.
CREATE TABLE file_gc_tasks (
    fs_id BIGINT NOT NULL,
    object_key {name:255} NOT NULL,
    due_at BIGINT NOT NULL,
    multipart SMALLINT NOT NULL,
    claim {name:64},
    claimed_at BIGINT,
    attempts INTEGER NOT NULL,
    last_error {name:1024} NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (fs_id, object_key)
){clustered};
CREATE INDEX file_gc_tasks_due ON file_gc_tasks (due_at);
CREATE INDEX file_gc_tasks_claim ON file_gc_tasks (claim);
-- Uploads in parts, bound to the deepest directory that existed and the rest of the path.
-- state: OPEN, COMPLETED, CLOSED (completed, and its parts were given to the collector),
-- ABORTED. store_upload is the store's own multipart upload.
CREATE TABLE uploads (
    fs_id BIGINT NOT NULL,
    upload_id {name:64} NOT NULL,
    base_inode BIGINT NOT NULL,
    rest {name:4096} NOT NULL,
    path {name:4096} NOT NULL,
    state {name:16} NOT NULL,
    declared_size BIGINT NOT NULL,
    object_key {name:255},
    store_upload {name:1024},
    created_by {name:255} NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (fs_id, upload_id)
){clustered};
CREATE INDEX uploads_base ON uploads (base_inode);
CREATE INDEX uploads_expiry ON uploads (state, expires_at);
CREATE TABLE upload_parts (
    fs_id BIGINT NOT NULL,
    upload_id {name:64} NOT NULL,
    number INTEGER NOT NULL,
    size BIGINT NOT NULL,
    sha256 {name:64} NOT NULL,
    etag {name:255} NOT NULL,
    object_key {name:255},
    created_at BIGINT NOT NULL,
    PRIMARY KEY (fs_id, upload_id, number)
){clustered};
CREATE INDEX upload_parts_object ON upload_parts (object_key);
