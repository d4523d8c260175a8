-- The tree of each drive. fs_id is the drive, the tenant's, and is never used again.
-- Names are bytes. Inode 1 is the root, 2 the hidden trash; neither has a dentry. A row
-- of inodes is alive as long as it is there: kind 1 directory, 2 file, 3 symbolic link.
CREATE TABLE file_nodes (
    fs_id BIGINT NOT NULL,
    parent_id BIGINT NOT NULL,
    name {name:255} NOT NULL,
    inode_id BIGINT NOT NULL,
    is_directory SMALLINT NOT NULL,
    PRIMARY KEY (fs_id, parent_id, name)
){clustered};
-- Partial on PostgreSQL, so that it answers only those who say inode_id > 0: where the
-- statistics say that the table is (nearly) empty it would be taken for the primary key, by
-- fs_id alone, and all of a drive be read for a name.
CREATE INDEX file_nodes_inode ON file_nodes (fs_id, inode_id){on postgres} WHERE inode_id > 0{end};
CREATE TABLE inodes (
    fs_id BIGINT NOT NULL,
    inode_id BIGINT NOT NULL,
    kind SMALLINT NOT NULL,
    mode INTEGER NOT NULL,
    size BIGINT NOT NULL,
    nlink BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    content_id BIGINT,
    target {text},
    created_at BIGINT NOT NULL,
    modified_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (fs_id, inode_id)
){clustered};
CREATE TABLE file_tags (
    fs_id BIGINT NOT NULL,
    inode_id BIGINT NOT NULL,
    name {name:255} NOT NULL,
    value {name:1024} NOT NULL,
    PRIMARY KEY (fs_id, inode_id, name)
){clustered};
-- The move lock of a drive, and the register of all drives.
CREATE TABLE fs_lock (
    fs_id BIGINT NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL
){table};
-- Ids of inodes and contents are handed out in blocks, by transactions of their own.
CREATE TABLE fs_ids (
    fs_id BIGINT NOT NULL PRIMARY KEY,
    next_id BIGINT NOT NULL
){table};
