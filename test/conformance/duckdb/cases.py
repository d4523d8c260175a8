"""The catalog as DuckDB's SQL uses it."""

import os

import duckdb
from harness import case, raises


@case
def schemas(env):
    env.schema("places")
    raises("not", env.sql, "CREATE TABLE lake.nowhere.t (id BIGINT)")
    env.table("lake.places.t")
    raises("is not empty", env.sql, "DROP SCHEMA lake.places")
    assert ("lake", "places", "t") in [row[:3] for row in env.sql("SHOW ALL TABLES")]
    env.sql("DROP TABLE lake.places.t")
    env.sql("DROP SCHEMA lake.places")


@case
def insert_update_delete_merge(env):
    t = env.table(env.schema("dml") + ".t")
    raises("already exists", env.sql, f"CREATE TABLE {t} (id BIGINT)")
    env.sql(f"DELETE FROM {t} WHERE id = 1")
    env.sql(f"UPDATE {t} SET city = 'Bonn' WHERE id = 2")
    assert env.sql(f"FROM {t} ORDER BY id") == [(2, "Bonn"), (3, "Paris")]
    env.sql(
        f"""MERGE INTO {t} USING (VALUES (3, 'Lyon'), (4, 'Oslo')) s(id, city) ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET city = s.city
        WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.city)"""
    )
    assert env.sql(f"FROM {t} ORDER BY id") == [(2, "Bonn"), (3, "Lyon"), (4, "Oslo")]


@case
def deletion_vectors(env):
    t = env.table(env.schema("vectors") + ".t", "WITH ('format-version'=3)")
    env.sql(f"DELETE FROM {t} WHERE id = 1")
    assert env.sql(f"SELECT id FROM {t} ORDER BY id") == [(2,), (3,)]
    assert any(name.endswith(".puffin") for name in env.files())


@case
def partitions(env):
    t = env.table(env.schema("partitions") + ".t", "PARTITIONED BY (city)")
    assert env.sql(f"SELECT id FROM {t} WHERE city = 'Berlin'") == [(2,)]
    metadata = env.load("partitions", "t")["metadata"]
    fields = {spec["spec-id"]: spec["fields"] for spec in metadata["partition-specs"]}[metadata["default-spec-id"]]
    assert [field["transform"] for field in fields] == ["identity"], metadata["partition-specs"]


@case
def evolution(env):
    t = env.table(env.schema("evolution") + ".t")
    env.sql(f"ALTER TABLE {t} ADD COLUMN country VARCHAR")
    env.sql(f"ALTER TABLE {t} RENAME COLUMN city TO town")
    env.sql(f"INSERT INTO {t} VALUES (4, 'Sneek', 'NL')")
    assert env.sql(f"SELECT id, town, country FROM {t} WHERE id > 2 ORDER BY id") == [(3, "Paris", None), (4, "Sneek", "NL")]
    env.sql(f"ALTER TABLE {t} RENAME TO u")
    assert env.sql("SELECT count(*) FROM lake.evolution.u") == [(4,)]
    raises("does not exist", env.sql, f"FROM {t}")


@case
def time_travel(env):
    t = env.table(env.schema("travel") + ".t")
    first, second = (row[0] for row in env.sql(f"SELECT snapshot_id FROM iceberg_snapshots({t}) ORDER BY sequence_number"))
    assert env.sql(f"SELECT id FROM {t} AT (VERSION => {first}) ORDER BY id") == [(1,), (2,)]
    assert env.sql(f"SELECT count(*) FROM {t} AT (VERSION => {second})") == [(3,)]


@case
def transaction_over_two_tables(env):
    schema = env.schema("transactions")
    a, b = env.table(f"{schema}.a"), env.table(f"{schema}.b")

    def sizes(db=None):
        return [env.sql(f"SELECT count(*) FROM {t}", db)[0][0] for t in (a, b)]

    for end, want in (("ROLLBACK", [3, 3]), ("COMMIT", [4, 4])):
        env.sql("BEGIN")
        for t in (a, b):
            env.sql(f"INSERT INTO {t} VALUES (9, 'Rome')")
        env.sql(end)
        assert sizes() == want, (end, sizes())

    # One table of the transaction has moved on meanwhile: neither changes.
    other = env.open()
    env.sql("BEGIN")
    for t in (a, b):
        env.sql(f"INSERT INTO {t} VALUES (10, 'Bari')")
    env.sql(f"INSERT INTO {b} VALUES (11, 'Pisa')", other)
    try:
        env.sql("COMMIT")
    except duckdb.Error as error:
        assert "409" in str(error), error
        assert sizes(env.open()) == [4, 5]
    else:
        raise AssertionError("the transaction overwrote what it had not seen")


@case
def create_table_as_select(env):
    """DuckDB makes no directory for the manifests of a staged table on a local disk."""
    t = env.schema("ctas") + ".t"
    db = env.open(", STAGE_CREATE_TABLES false")
    env.sql(f"CREATE TABLE {t} AS SELECT range AS id FROM range(10)", db)
    assert env.sql(f"SELECT count(*) FROM {t}") == [(10,)]


@case
def drop_keeps_every_file(env):
    t = env.table(env.schema("keep") + ".t")
    before = env.files()
    env.sql(f"DROP TABLE {t}")
    raises("does not exist", env.sql, f"FROM {t}")
    assert env.files() == before and env.jobs("keep", "t") == []


@case
def purge(env):
    """With PURGE_REQUESTED the server deletes the files before DROP TABLE returns."""
    t = env.table(env.schema("purge") + ".t")
    env.sql(f"DELETE FROM {t} WHERE id = 1")
    where = env.location("purge", "t")
    others = env.files(without=where)
    env.sql(f"DROP TABLE {t}", env.open(", PURGE_REQUESTED true"))
    assert not os.path.exists(where), os.listdir(where)
    assert env.files() == others
    (job,) = env.jobs("purge", "t")
    assert job["state"] == "SUCCEEDED", job
