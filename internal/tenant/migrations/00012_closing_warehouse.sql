-- A warehouse that is being dropped with its tables: nothing new is made in it.
ALTER TABLE warehouses ADD COLUMN closing_at BIGINT;
