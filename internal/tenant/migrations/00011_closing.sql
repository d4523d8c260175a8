-- A tenant that is being dropped: its tokens are dead.
ALTER TABLE tenants ADD COLUMN closing_at BIGINT;
