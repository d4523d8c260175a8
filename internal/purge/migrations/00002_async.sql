-- Whether the drop asked for an answer before its purge has ended, for the events of the
-- purge. Rows of before count as those that waited.
-- compatible from 1
ALTER TABLE iceberg_cleanup_job ADD COLUMN async SMALLINT NOT NULL DEFAULT 0;
