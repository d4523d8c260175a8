"""Drops and upkeep: what goes and what stays, Hadoop's .crc files included."""

import os

from harness import case, raises


def assert_purged(env, ns, where, others):
    """Nothing of ns.t is left, nothing else was touched, and the server did it."""
    raises("TABLE_OR_VIEW_NOT_FOUND", env.ids, f"{ns}.t")
    assert not os.path.exists(where), env.files(where) or "only directories are left"
    assert env.files() == others
    (job,) = env.jobs(ns, "t")
    assert job["state"] == "SUCCEEDED", job
    progress = job["progress"]
    assert not progress.get("missing") and not progress.get("skipped") and not progress.get("leftovers"), progress


@case
def drop_keeps_every_file(env):
    ns = env.namespace("keep")
    t = env.table(f"{ns}.t")
    before, metadata = env.files(), env.load(ns, "t")["metadata-location"]
    env.sql(f"DROP TABLE {t}")
    raises("TABLE_OR_VIEW_NOT_FOUND", env.ids, t)
    assert env.files() == before and env.jobs(ns, "t") == []
    env.sql(f"CALL lethe.system.register_table('{ns}.again', '{metadata}')")
    env.sql(f"INSERT INTO {ns}.again VALUES (4, 'Rome')")
    assert env.ids(f"{ns}.again") == [1, 2, 3, 4]


@case
def purge_by_the_server(env):
    ns = env.namespace("purge")
    env.table(f"{ns}.sibling")
    t = env.table(f"{ns}.t", clauses="PARTITIONED BY (city)", write_delete_mode="merge-on-read")
    env.sql(f"DELETE FROM {t} WHERE id = 1")
    env.sql(f"ALTER TABLE {t} CREATE BRANCH work")
    env.sql(f"INSERT INTO {t}.branch_work VALUES (9, 'Rome')")
    env.sql(f"CALL lethe.system.compute_table_stats('{t}')")  # a Puffin file
    where = env.location(ns, "t")
    checksums = [name for name in env.files(where) if name.endswith(".crc")]
    assert len(checksums) > 10, checksums
    others = env.files(without=where)
    env.sql(f"DROP TABLE {t} PURGE")
    assert_purged(env, ns, where, others)
    assert env.ids(f"{ns}.sibling") == [1, 2, 3]


@case
def purge_by_spark(env):
    """Without rest-catalog-purge Spark drops the entry and deletes the files itself."""
    ns = env.namespace("purge_spark")
    env.table(f"{ns}.t")
    where = env.location(ns, "t")
    others = env.files(without=where)
    env.sql(f"DROP TABLE plain.{ns}.t PURGE")
    raises("TABLE_OR_VIEW_NOT_FOUND", env.ids, f"{ns}.t")
    assert env.files(where) == {} and env.files() == others
    assert env.jobs(ns, "t") == []


@case
def upkeep_then_purge(env):
    ns = env.namespace("upkeep")
    t = env.table(f"{ns}.t", write_update_mode="merge-on-read", write_metadata_previous_versions_max="2")
    for n in range(4, 7):
        env.sql(f"INSERT INTO {t} VALUES ({n}, 'Rome')")
    env.sql(f"UPDATE {t} SET city = 'Roma' WHERE id >= 5")
    where = env.location(ns, "t")
    ((rewritten, added),) = [row[:2] for row in env.sql(
        f"CALL lethe.system.rewrite_data_files(table => '{t}', options => map('min-input-files', '2'))")]
    assert rewritten > 1 and added == 1, (rewritten, added)
    env.sql(f"CALL lethe.system.rewrite_manifests('{t}')")
    before = env.files(where)
    (counts,) = env.sql(f"CALL lethe.system.expire_snapshots(table => '{t}', older_than => TIMESTAMP '2999-01-01', retain_last => 1)")
    assert counts[0] > 1 and counts[4] > 1, counts  # data files and manifest lists
    assert len(env.files(where)) < len(before)
    assert len(env.snapshots(t)) == 1 and env.ids(t) == [1, 2, 3, 4, 5, 6]
    others = env.files(without=where)
    env.sql(f"DROP TABLE {t} PURGE")
    assert_purged(env, ns, where, others)


@case
def purge_without_garbage_collection(env):
    """Spark refuses to purge a table whose files may belong to others."""
    ns = env.namespace("gc")
    t = env.table(f"{ns}.t", gc_enabled="false")
    raises("GC is disabled", env.sql, f"DROP TABLE {t} PURGE")
    assert env.ids(t) == [1, 2, 3] and env.jobs(ns, "t") == []
