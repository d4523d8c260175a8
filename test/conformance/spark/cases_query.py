"""Tables as Spark's SQL uses them."""

from harness import case, raises


@case
def namespaces(env):
    env.sql("CREATE NAMESPACE sales WITH PROPERTIES ('region'='eu')")
    env.sql("CREATE NAMESPACE sales.eu")
    assert ("sales",) in env.sql("SHOW NAMESPACES")
    assert env.sql("SHOW NAMESPACES IN sales") == [("sales.eu",)]
    env.sql("ALTER NAMESPACE sales SET PROPERTIES ('tier'='gold')")
    described = dict(env.sql("DESCRIBE NAMESPACE EXTENDED sales"))
    assert "(region,eu)" in described["Properties"] and "(tier,gold)" in described["Properties"], described
    env.table("sales.eu.t")
    assert env.sql("SHOW TABLES IN sales.eu") == [("sales.eu", "t", False)]
    raises("not empty", env.sql, "DROP NAMESPACE sales.eu")
    raises("Namespace does not exist: nowhere", env.sql, "SHOW TABLES IN nowhere")
    env.sql("DROP TABLE sales.eu.t PURGE")
    env.sql("DROP NAMESPACE sales.eu")
    env.sql("DROP NAMESPACE sales")


@case
def ctas(env):
    ns = env.namespace("ctas")
    select = "SELECT id, concat('c', id % 2) AS city FROM range(10)"
    env.sql(f"CREATE TABLE {ns}.t USING iceberg PARTITIONED BY (city) AS {select}")
    assert env.ids(f"{ns}.t") == list(range(10))
    assert env.ids(f"{ns}.t", "WHERE city = 'c1'") == [1, 3, 5, 7, 9]
    raises("already exists", env.sql, f"CREATE TABLE {ns}.t USING iceberg AS {select}")
    raises("NoSuchNamespace", env.sql, f"CREATE TABLE nowhere.t USING iceberg AS {select}")
    uuid = env.load(ns, "t")["metadata"]["table-uuid"]
    env.sql(f"CREATE OR REPLACE TABLE {ns}.t USING iceberg AS SELECT id FROM range(3)")
    assert env.ids(f"{ns}.t") == [0, 1, 2]
    assert env.load(ns, "t")["metadata"]["table-uuid"] == uuid  # a new state of the same table


@case
def failed_ctas_leaves_no_table(env):
    ns = env.namespace("ctas_failed")
    raises("DIVIDE_BY_ZERO", env.sql, f"CREATE TABLE {ns}.t USING iceberg AS SELECT id / raise_error('DIVIDE_BY_ZERO') AS id FROM range(3)")
    assert env.sql(f"SHOW TABLES IN {ns}") == []


def modify(env, name, mode, version):
    words = ", ".join(f"'write.{action}.mode'='{mode}'" for action in ("merge", "update", "delete"))
    env.table(name, clauses=f"TBLPROPERTIES ('format-version'='{version}', {words})")
    env.sql(
        f"""MERGE INTO {name} t USING (SELECT * FROM VALUES (2, 'Bonn'), (3, NULL), (4, 'Oslo') AS v(id, city)) s ON t.id = s.id
        WHEN MATCHED AND s.city IS NULL THEN DELETE
        WHEN MATCHED THEN UPDATE SET city = s.city
        WHEN NOT MATCHED THEN INSERT *"""
    )
    assert env.sql(f"SELECT * FROM {name} ORDER BY id") == [(1, "Drachten"), (2, "Bonn"), (4, "Oslo")]
    env.sql(f"UPDATE {name} SET city = upper(city), id = id + 10 WHERE id < 3")
    assert env.sql(f"SELECT * FROM {name} ORDER BY id") == [(4, "Oslo"), (11, "DRACHTEN"), (12, "BONN")]
    env.sql(f"DELETE FROM {name} WHERE city = 'BONN'")
    assert env.ids(name) == [4, 11]


@case
def merge_update_delete_by_copy(env):
    ns = env.namespace("dml_copy")
    modify(env, f"{ns}.t", "copy-on-write", 2)
    assert env.sql(f"SELECT * FROM {ns}.t.delete_files") == []


@case
def merge_update_delete_by_position(env):
    ns = env.namespace("dml_position")
    modify(env, f"{ns}.t", "merge-on-read", 2)
    formats = {row[0] for row in env.sql(f"SELECT file_format FROM {ns}.t.all_delete_files")}
    assert formats == {"PARQUET"}, formats


@case
def merge_update_delete_by_vector(env):
    ns = env.namespace("dml_vector")
    modify(env, f"{ns}.t", "merge-on-read", 3)
    formats = {row[0] for row in env.sql(f"SELECT file_format FROM {ns}.t.all_delete_files")}
    assert formats == {"PUFFIN"}, formats


@case
def evolution(env):
    ns = env.namespace("evolution")
    t = env.table(f"{ns}.t", "id INT, city STRING")
    env.sql(f"ALTER TABLE {t} ADD COLUMN country STRING AFTER id")
    env.sql(f"ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT")
    env.sql(f"ALTER TABLE {t} RENAME COLUMN city TO town")
    env.sql(f"ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)")
    env.sql(f"ALTER TABLE {t} WRITE ORDERED BY town")
    env.sql(f"INSERT INTO {t} VALUES ({2**40}, 'NL', 'Sneek')")
    assert env.sql(f"SELECT id, country, town FROM {t} WHERE id > 2 ORDER BY id") == [(3, None, "Paris"), (2**40, "NL", "Sneek")]
    env.sql(f"ALTER TABLE {t} DROP PARTITION FIELD bucket(4, id)")
    env.sql(f"ALTER TABLE {t} WRITE UNORDERED")
    env.sql(f"ALTER TABLE {t} DROP COLUMN town")
    assert env.spark.table(t).columns == ["id", "country"]
    env.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('note'='x')")
    env.sql(f"ALTER TABLE {t} UNSET TBLPROPERTIES ('note')")
    assert "note" not in env.load(ns, "t")["metadata"]["properties"]


@case
def time_travel(env):
    ns = env.namespace("travel")
    t = env.table(f"{ns}.t")
    first, second = env.snapshots(t)
    assert env.ids(t, f"VERSION AS OF {first}") == [1, 2]
    ((at,),) = env.sql(f"SELECT CAST(committed_at AS STRING) FROM {t}.snapshots WHERE snapshot_id = {first}")
    assert env.ids(t, f"TIMESTAMP AS OF '{at}'") == [1, 2]
    env.sql(f"CALL lethe.system.rollback_to_snapshot('{t}', {first})")
    assert env.ids(t) == [1, 2]
    env.sql(f"CALL lethe.system.set_current_snapshot('{t}', {second})")
    assert env.ids(t) == [1, 2, 3]


@case
def branches_and_tags(env):
    ns = env.namespace("branches")
    t = env.table(f"{ns}.t")
    first, _ = env.snapshots(t)
    env.sql(f"ALTER TABLE {t} CREATE TAG early AS OF VERSION {first} RETAIN 7 DAYS")
    env.sql(f"ALTER TABLE {t} CREATE BRANCH work")
    env.sql(f"INSERT INTO {t}.branch_work VALUES (9, 'Rome')")
    assert env.ids(t) == [1, 2, 3]
    assert env.ids(t, "VERSION AS OF 'work'") == [1, 2, 3, 9]
    assert env.ids(t, "VERSION AS OF 'early'") == [1, 2]
    refs = {(name, kind) for name, kind in env.sql(f"SELECT name, type FROM {t}.refs")}
    assert refs == {("main", "BRANCH"), ("work", "BRANCH"), ("early", "TAG")}, refs
    env.sql(f"CALL lethe.system.fast_forward('{t}', 'main', 'work')")
    assert env.ids(t) == [1, 2, 3, 9]
    env.sql(f"ALTER TABLE {t} REPLACE TAG early AS OF VERSION {env.snapshots(t)[-1]}")
    assert env.ids(t, "VERSION AS OF 'early'") == [1, 2, 3, 9]
    env.sql(f"ALTER TABLE {t} DROP BRANCH work")
    env.sql(f"ALTER TABLE {t} DROP TAG early")
    assert env.sql(f"SELECT name FROM {t}.refs") == [("main",)]


@case
def audited_write(env):
    """Write, audit, publish: the staged snapshot is seen only after its cherry-pick."""
    ns = env.namespace("audited")
    t = env.table(f"{ns}.t", write_wap_enabled="true")
    env.spark.conf.set("spark.wap.id", "audit-1")
    try:
        env.sql(f"INSERT INTO {t} VALUES (4, 'Rome')")
    finally:
        env.spark.conf.unset("spark.wap.id")
    assert env.ids(t) == [1, 2, 3]
    env.sql(f"CALL lethe.system.publish_changes('{t}', 'audit-1')")
    assert env.ids(t) == [1, 2, 3, 4]


@case
def rename(env):
    ns = env.namespace("renamed")
    env.namespace(f"{ns}.deep")
    env.table(f"{ns}.t")
    env.sql(f"ALTER TABLE {ns}.t RENAME TO {ns}.deep.u")
    assert env.ids(f"{ns}.deep.u") == [1, 2, 3]
    raises("TABLE_OR_VIEW_NOT_FOUND", env.ids, f"{ns}.t")
    env.table(f"{ns}.t")
    raises("already exists", env.sql, f"ALTER TABLE {ns}.t RENAME TO {ns}.deep.u")
