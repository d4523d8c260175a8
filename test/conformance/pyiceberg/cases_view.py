"""Views as PyIceberg uses them; they share the tables' names."""

import gzip
import json

from harness import case, raises
from pyiceberg.exceptions import NoSuchViewError, TableAlreadyExistsError, ViewAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion

SCHEMA = Schema(NestedField(1, "id", LongType()))


def version(ns, sql="SELECT 1 AS id"):
    return ViewVersion(
        version_id=1,
        schema_id=0,
        timestamp_ms=1,
        summary={"engine-name": "test"},
        representations=[SQLViewRepresentation(type="sql", sql=sql, dialect="spark")],
        default_namespace=list(ns),
    )


@case
def view_life(env):
    ns = env.namespace("views")
    view = env.catalog.create_view((*ns, "v"), SCHEMA, version(ns))
    assert env.catalog.view_exists((*ns, "v")) and env.catalog.list_views(ns) == [(*ns, "v")]
    raises(ViewAlreadyExistsError, "v", env.catalog.create_view, (*ns, "v"), SCHEMA, version(ns))
    loaded = env.catalog.load_view((*ns, "v"))
    assert loaded.metadata.view_uuid == view.metadata.view_uuid
    assert [r.root.sql for r in loaded.metadata.versions[0].representations] == ["SELECT 1 AS id"]
    env.catalog.drop_view((*ns, "v"))
    assert not env.catalog.view_exists((*ns, "v")) and env.catalog.list_views(ns) == []
    raises(NoSuchViewError, "v", env.catalog.drop_view, (*ns, "v"))
    assert any(file.endswith(".metadata.json") for file in env.files(view.metadata.location)), "a drop keeps files"


@case
def view_registered_again(env):
    ns = env.namespace("views-again")
    view = env.catalog.create_view((*ns, "v"), SCHEMA, version(ns))
    (file,) = env.files(view.metadata.location)
    metadata = gzip.decompress(env.storage.read(file))  # the default for views
    assert json.loads(metadata)["view-uuid"] == view.metadata.view_uuid
    env.catalog.drop_view((*ns, "v"))
    again = env.catalog.register_view((*ns, "again"), file)
    assert again.metadata.view_uuid == view.metadata.view_uuid


@case
def views_and_tables_share_names(env):
    ns = env.namespace("views-names")
    env.catalog.create_view((*ns, "v"), SCHEMA, version(ns))
    env.table((*ns, "t"))
    raises(TableAlreadyExistsError, "v", env.catalog.create_table, (*ns, "v"), SCHEMA)
    raises(ViewAlreadyExistsError, "t", env.catalog.create_view, (*ns, "t"), SCHEMA, version(ns))
    raises(TableAlreadyExistsError, "v", env.catalog.rename_table, (*ns, "t"), (*ns, "v"))
    assert env.catalog.list_tables(ns) == [(*ns, "t")] and env.catalog.list_views(ns) == [(*ns, "v")]
