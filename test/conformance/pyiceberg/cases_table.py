"""Namespaces and tables as PyIceberg uses them."""

import gzip
import os

import pyarrow as pa
from harness import MORE, ROWS, case, raises, rows
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "city", StringType()))


@case
def unknown_token_is_refused(env):
    raises(UnauthorizedError, "NotAuthorized", env.open, token="wrong-wrong-wrong")


@case
def namespaces(env):
    c = env.catalog
    c.create_namespace("sales", {"owner": "ann", "tier": "gold"})
    c.create_namespace(("sales", "eu"))
    c.create_namespace(("sales", "eu", "north"))
    assert ("sales",) in c.list_namespaces()
    assert c.list_namespaces("sales") == [("sales", "eu")], c.list_namespaces("sales")
    assert c.list_namespaces(("sales", "eu")) == [("sales", "eu", "north")]
    assert c.namespace_exists(("sales", "eu")) and not c.namespace_exists(("sales", "us"))
    raises(NamespaceAlreadyExistsError, "", c.create_namespace, "sales")
    raises(NoSuchNamespaceError, "", c.list_namespaces, "nowhere")

    summary = c.update_namespace_properties("sales", {"tier", "absent"}, {"owner": "bob"})
    assert summary.removed == ["tier"] and summary.updated == ["owner"] and summary.missing == ["absent"], summary
    assert c.load_namespace_properties("sales").get("owner") == "bob"
    assert "tier" not in c.load_namespace_properties("sales")

    raises(NamespaceNotEmptyError, "", c.drop_namespace, "sales")
    c.drop_namespace(("sales", "eu", "north"))
    c.drop_namespace(("sales", "eu"))
    c.drop_namespace("sales")
    raises(NoSuchNamespaceError, "", c.drop_namespace, "sales")


@case
def create_append_read(env):
    ns = env.namespace("basic")
    table = env.table((*ns, "t"))
    table.append(MORE)
    assert rows(table.scan()) == [1, 2, 3, 4, 5]
    assert rows(env.catalog.load_table((*ns, "t")).scan(row_filter="city = 'Paris'")) == [3]
    assert len(table.snapshots()) == 2
    assert table.location().startswith(env.root + "/")
    raises(TableAlreadyExistsError, "", env.catalog.create_table, (*ns, "t"), ROWS.schema)
    raises(NoSuchTableError, "", env.catalog.load_table, (*ns, "absent"))
    raises(NoSuchNamespaceError, "", env.catalog.create_table, ("absent", "t"), ROWS.schema)


@case
def partitioned(env):
    ns = env.namespace("partitioned")
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))
    table = env.table((*ns, "t"), schema=SCHEMA, partition_spec=spec)
    assert len(list(table.scan().plan_files())) == 3
    assert rows(table.scan(row_filter="city = 'Berlin'")) == [2]
    with table.update_spec() as update:
        update.remove_field("city")
    table.append(MORE)
    assert rows(env.catalog.load_table((*ns, "t")).scan()) == [1, 2, 3, 4, 5]


@case
def format_versions(env):
    ns = env.namespace("versions")
    for version in (1, 2):
        table = env.table((*ns, f"v{version}"), properties={"format-version": str(version)})
        assert table.format_version == version and rows(table.scan()) == [1, 2, 3]
    assert env.catalog.create_table((*ns, "v3"), SCHEMA, properties={"format-version": "3"}).format_version == 3
    table = env.catalog.load_table((*ns, "v1"))
    with table.transaction() as tx:
        tx.upgrade_table_version(2)
    assert env.catalog.load_table((*ns, "v1")).format_version == 2


@case
def schema_evolution(env):
    ns = env.namespace("evolution")
    narrow = pa.table({"id": pa.array([1, 2], pa.int32()), "city": ["a", "b"]})
    table = env.table((*ns, "t"), narrow)
    with table.update_schema() as update:
        update.add_column("country", StringType())
        update.update_column("id", LongType())
        update.rename_column("city", "town")
    table.append(pa.table({"id": pa.array([2**40], pa.int64()), "town": ["c"], "country": ["NL"]}))
    table = env.catalog.load_table((*ns, "t"))
    found = table.scan().to_arrow().sort_by("id").to_pydict()
    assert found == {"id": [1, 2, 2**40], "town": ["a", "b", "c"], "country": [None, None, "NL"]}, found
    with table.update_schema() as update:
        update.delete_column("town")
    assert [f.name for f in env.catalog.load_table((*ns, "t")).schema().fields] == ["id", "country"]


@case
def delete_and_overwrite(env):
    ns = env.namespace("deletes")
    table = env.table((*ns, "t"))
    table.append(MORE)
    table.delete("id = 2")  # rewrites a file
    table.delete("id >= 4")  # drops a whole file
    assert rows(table.scan()) == [1, 3]
    table.overwrite(MORE)
    assert rows(env.catalog.load_table((*ns, "t")).scan()) == [4, 5]
    table.overwrite(ROWS, overwrite_filter="id = 4")
    assert rows(env.catalog.load_table((*ns, "t")).scan()) == [1, 2, 3, 5]


@case
def upsert(env):
    ns = env.namespace("upserts")
    table = env.table((*ns, "t"))
    change = pa.table({"id": pa.array([3, 9], pa.int64()), "city": ["Lyon", "Oslo"]})
    result = table.upsert(change, join_cols=["id"])
    assert (result.rows_updated, result.rows_inserted) == (1, 1), result
    found = dict(zip(*env.catalog.load_table((*ns, "t")).scan().to_arrow().to_pydict().values()))
    assert found == {1: "Drachten", 2: "Berlin", 3: "Lyon", 9: "Oslo"}, found


@case
def branches_and_tags(env):
    ns = env.namespace("refs")
    table = env.table((*ns, "t"))
    first = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(first, "v1").create_branch(first, "audit").commit()
    table.append(MORE, branch="audit")
    table = env.catalog.load_table((*ns, "t"))
    assert rows(table.scan()) == [1, 2, 3]
    assert rows(table.scan().use_ref("audit")) == [1, 2, 3, 4, 5]
    table.append(MORE)
    assert rows(table.scan().use_ref("v1")) == [1, 2, 3]
    table.manage_snapshots().remove_tag("v1").remove_branch("audit").commit()
    assert set(env.catalog.load_table((*ns, "t")).refs()) == {"main"}


@case
def expire_snapshots(env):
    ns = env.namespace("expiry")
    table = env.table((*ns, "t"))
    first = table.current_snapshot().snapshot_id
    table.append(MORE)
    table.maintenance.expire_snapshots().by_id(first).commit()
    table = env.catalog.load_table((*ns, "t"))
    assert len(table.snapshots()) == 1 and rows(table.scan()) == [1, 2, 3, 4, 5]


@case
def snapshots_refs(env):
    ns = env.namespace("lazy")
    table = env.table((*ns, "t"))
    table.append(MORE)
    lazy = env.open(**{"snapshot-loading-mode": "refs"}).load_table((*ns, "t"))
    assert len(lazy.snapshots()) == 1 and rows(lazy.scan()) == [1, 2, 3, 4, 5]


@case
def properties(env):
    ns = env.namespace("props")
    table = env.table((*ns, "t"), properties={"a": "1", "b": "2"})
    with table.transaction() as tx:
        tx.set_properties({"a": "ü=\n", "c": "3"})
        tx.remove_properties("b")
    found = env.catalog.load_table((*ns, "t")).properties
    assert found.get("a") == "ü=\n" and found.get("c") == "3" and "b" not in found, found


@case
def gzip_metadata(env):
    ns = env.namespace("gzipped")
    table = env.table((*ns, "t"), properties={"write.metadata.compression-codec": "gzip"})
    assert table.metadata_location.endswith(".gz.metadata.json"), table.metadata_location
    assert gzip.decompress(env.storage.read(table.metadata_location)).startswith(b"{")
    assert rows(StaticTable.from_metadata(table.metadata_location, table.io.properties).scan()) == [1, 2, 3]


@case
def metadata_file_is_what_the_catalog_says(env):
    ns = env.namespace("metadata")
    table = env.table((*ns, "t"))
    static = StaticTable.from_metadata(table.metadata_location, table.io.properties)
    assert static.metadata == env.catalog.load_table((*ns, "t")).metadata
    assert os.path.basename(table.metadata_location).startswith("00001-"), table.metadata_location


@case
def staged_create(env):
    ns = env.namespace("staged")
    with env.catalog.create_table_transaction((*ns, "t"), SCHEMA, properties={"a": "1"}) as tx:
        tx.append(ROWS)
        assert not env.catalog.table_exists((*ns, "t"))
    table = env.catalog.load_table((*ns, "t"))
    assert rows(table.scan()) == [1, 2, 3] and table.properties["a"] == "1"


@case
def two_staged_creates_of_one_name(env):
    ns = env.namespace("staged-twice")
    first = env.catalog.create_table_transaction((*ns, "t"), SCHEMA)
    second = env.catalog.create_table_transaction((*ns, "t"), SCHEMA)
    first.commit_transaction()
    raises(CommitFailedException, "already exists", second.commit_transaction)
    assert env.catalog.load_table((*ns, "t")).metadata.table_uuid == first._table.metadata.table_uuid


@case
def stale_commit_is_refused(env):
    ns = env.namespace("conflict")
    env.table((*ns, "t"), properties={"commit.retry.num-retries": "0"})
    one, other = (env.catalog.load_table((*ns, "t")) for _ in range(2))
    with one.update_schema() as update:
        update.add_column("one", StringType())

    def late():
        with other.update_schema() as update:
            update.add_column("other", StringType())

    raises(CommitFailedException, "", late)
    assert [f.name for f in env.catalog.load_table((*ns, "t")).schema().fields] == ["id", "city", "one"]


@case
def rename_across_namespaces(env):
    old, new = env.namespace("from-here"), env.namespace("to-there")
    table = env.table((*old, "t"))
    renamed = env.catalog.rename_table((*old, "t"), (*new, "moved"))
    assert renamed.metadata.table_uuid == table.metadata.table_uuid and rows(renamed.scan()) == [1, 2, 3]
    raises(NoSuchTableError, "", env.catalog.load_table, (*old, "t"))
    renamed.append(MORE)
    again = env.table((*old, "t"), MORE)
    assert again.location() != renamed.location()
    raises(TableAlreadyExistsError, "", env.catalog.rename_table, (*old, "t"), (*new, "moved"))
    assert rows(env.catalog.load_table((*new, "moved")).scan()) == [1, 2, 3, 4, 5]


@case
def listing_and_pages(env):
    ns = env.namespace("listing")
    names = [f"t{i}" for i in range(5)]
    for name in names:
        env.catalog.create_table((*ns, name), SCHEMA)
    want = [(*ns, name) for name in names]
    assert sorted(env.catalog.list_tables(ns)) == want
    assert sorted(env.open(**{"rest-page-size": "2"}).list_tables(ns)) == want
    assert env.catalog.table_exists((*ns, "t0")) and not env.catalog.table_exists((*ns, "t9"))


STRANGE = ["a.b", "with space", "plus+sign", "slash/es", "ünï—東京", "%41", "quo'te\"s", "?q=1#frag", "back\\slash", "UPPER", "upper"]


@case
def strange_names(env):
    """Names are bytes: what looks alike, or like syntax, is still a name of its own."""
    c = env.catalog
    env.namespace("strange")
    for level in STRANGE:
        ns = env.namespace("strange", level)
        table = env.table((*ns, level))
        assert c.list_tables(ns) == [(*ns, level)], c.list_tables(ns)
        loaded = c.load_table((*ns, level))
        assert loaded.metadata.table_uuid == table.metadata.table_uuid and rows(loaded.scan()) == [1, 2, 3]
    assert sorted(c.list_namespaces("strange")) == sorted(("strange", level) for level in STRANGE)
    assert not c.namespace_exists(("strange", "a", "b")) and not c.namespace_exists(("strange", "A"))
    for level in STRANGE:
        c.purge_table(("strange", level, level))
        c.drop_namespace(("strange", level))
    c.drop_namespace("strange")


@case
def register_over(env):
    """Register with overwrite: the name stands for other metadata, no file goes."""
    ns = env.namespace("register-over")
    table = env.table((*ns, "t"))
    first = table.metadata_location
    table.append(MORE)
    before = env.files()
    raises(TableAlreadyExistsError, "", env.catalog.register_table, (*ns, "t"), first)
    back = env.catalog.register_table((*ns, "t"), first, overwrite=True)
    assert rows(back.scan()) == rows(env.catalog.load_table((*ns, "t")).scan()) == [1, 2, 3]
    assert env.files() == before
