"""Drops: what goes, what stays, and what others see meanwhile."""

from harness import MORE, ROWS, blocking, case, data_files, raises, rows
from pyiceberg.exceptions import BadRequestError, CommitFailedException, NoSuchTableError, RESTError, TableAlreadyExistsError
from pyiceberg.table.statistics import StatisticsFile


def assert_gone(env, table, identifier, others):
    """Nothing of the table is left, not even its directory, and nothing else was touched."""
    where = table.location()
    assert env.storage.gone(where), env.files(where) or "only directories are left"
    assert env.files(without=[where]) == others
    raises(NoSuchTableError, "", env.catalog.load_table, identifier)
    (job,) = env.jobs(identifier)
    assert job["state"] == "SUCCEEDED", job


@case
def drop_without_purge_keeps_every_file(env):
    ns = env.namespace("keep")
    table = env.table((*ns, "t"))
    before = env.files()
    env.catalog.drop_table((*ns, "t"))
    raises(NoSuchTableError, "", env.catalog.load_table, (*ns, "t"))
    assert env.files() == before
    assert env.jobs((*ns, "t")) == []
    raises(NoSuchTableError, "", env.catalog.drop_table, (*ns, "t"))

    again = env.catalog.register_table((*ns, "again"), table.metadata_location)
    assert rows(again.scan()) == [1, 2, 3]
    again.append(MORE)
    assert rows(env.catalog.load_table((*ns, "again")).scan()) == [1, 2, 3, 4, 5]


@case
def purge_leaves_nothing(env):
    ns = env.namespace("purge")
    sibling = env.table((*ns, "sibling"))
    table = env.table((*ns, "t"), properties={"write.metadata.previous-versions-max": "2"})
    for _ in range(4):  # metadata files that fall out of the log are found all the same
        table.append(MORE)
    table.delete("id = 1")
    table.manage_snapshots().create_branch(table.snapshots()[0].snapshot_id, "old").commit()
    table.append(MORE, branch="old")
    where = table.location()
    assert len(env.files(where)) > 20
    others = env.files(without=[where])
    env.catalog.purge_table((*ns, "t"))
    assert_gone(env, table, (*ns, "t"), others)
    assert rows(env.catalog.load_table((*ns, "sibling")).scan()) == rows(sibling.scan()) == [1, 2, 3]
    raises(NoSuchTableError, "", env.catalog.purge_table, (*ns, "t"))


@case
def purge_takes_statistics(env):
    ns = env.namespace("statistics")
    table = env.table((*ns, "t"))
    for name in ("first", "second"):  # the second replaces the first, whose file stays behind
        file = f"{table.location()}/metadata/{name}.puffin"
        env.storage.write(file, b"PFA1")
        snapshot = table.current_snapshot().snapshot_id
        statistics = StatisticsFile(
            snapshot_id=snapshot, statistics_path=file, file_size_in_bytes=4, file_footer_size_in_bytes=0, blob_metadata=[]
        )
        with table.update_statistics() as update:
            update.set_statistics(statistics)
    others = env.files(without=[table.location()])
    env.catalog.drop_table((*ns, "t"), purge_requested=True)
    assert_gone(env, table, (*ns, "t"), others)


@case
def purge_does_not_touch_a_neighbour_with_the_same_prefix(env):
    ns = env.namespace("prefix")
    root = f"{env.root}/explicit"
    table, beside = (env.table((*ns, name), location=f"{root}/{name}") for name in ("t", "t2"))
    others = env.files(without=[table.location()])
    env.catalog.purge_table((*ns, "t"))
    assert_gone(env, table, (*ns, "t"), others)
    assert rows(beside.scan()) == [1, 2, 3]


@case
def locations_of_a_live_table_are_taken(env):
    ns = env.namespace("taken")
    table = env.table((*ns, "t"))
    for location in (table.location(), table.location() + "/below"):
        raises(TableAlreadyExistsError, "held by table taken.t", env.catalog.create_table, (*ns, "u"), ROWS.schema, location=location)
    assert env.catalog.list_tables(ns) == [(*ns, "t")]


@case
def locations_outside_the_warehouse_are_refused(env):
    ns = env.namespace("outside")
    for location in ("file:///etc/lethe", f"{env.root}/../beside", "s3://bucket/t"):
        raises(BadRequestError, "not below", env.catalog.create_table, (*ns, "t"), ROWS.schema, location=location)
    assert env.catalog.list_tables(ns) == []


@case
def renamed_table_and_its_old_name(env):
    ns = env.namespace("renamed")
    table = env.table((*ns, "t"))
    env.catalog.rename_table((*ns, "t"), (*ns, "u"))
    new = env.table((*ns, "t"), MORE)
    others = env.files(without=[table.location()])
    env.catalog.purge_table((*ns, "u"))
    assert_gone(env, table, (*ns, "u"), others)
    assert rows(new.scan()) == [4, 5]


@case
def async_purge(env):
    ns = env.namespace("asynchronous")
    table = env.table((*ns, "t"))
    others = env.files(without=[table.location()])
    env.open(**{"header.X-Gravitino-Async-Purge": "true"}).purge_table((*ns, "t"))
    raises(NoSuchTableError, "", env.catalog.load_table, (*ns, "t"))
    env.wait(env.jobs((*ns, "t"))[0]["job"])
    assert_gone(env, table, (*ns, "t"), others)


@case
def purge_headers(env):
    ns = env.namespace("headers")
    env.table((*ns, "t"))
    answer = env.drop_raw((*ns, "t"), "?purgeRequested=true", **{"X-Gravitino-Async-Purge": "yes"})
    assert answer.status_code == 400, answer.status_code
    assert env.catalog.table_exists((*ns, "t"))
    answer = env.drop_raw((*ns, "t"), "?purgeRequested=true", **{"X-Gravitino-Async-Purge": "false"})
    assert answer.status_code == 204 and answer.headers["X-Lethe-Job-State"] == "SUCCEEDED", answer.headers
    (job,) = env.jobs((*ns, "t"))
    assert answer.headers["X-Lethe-Job"] == job["job"]
    cleanups = env.get("/api/metalakes/default/catalogs/default/cleanups", params={"namespace": "headers", "table": "t"})
    assert [(c["job"], c["state"], c["objectType"]) for c in cleanups["cleanups"]] == [(job["job"], "SUCCEEDED", "TABLE")]

    env.table((*ns, "u"))  # without purgeRequested the header means nothing
    before = env.files()
    answer = env.drop_raw((*ns, "u"), **{"X-Gravitino-Async-Purge": "yes"})
    assert answer.status_code == 204 and env.files() == before


@case
@blocking
def the_name_is_taken_while_it_is_purged(env):
    ns = env.namespace("tombstone")
    other = env.table((*ns, "other"))
    table = env.table((*ns, "t"))
    metadata = table.metadata_location
    (stuck,) = data_files(table)
    env.storage.block(stuck)  # the purge cannot end
    env.open(**{"header.X-Gravitino-Async-Purge": "true"}).purge_table((*ns, "t"))
    (job,) = env.jobs((*ns, "t"))
    raises(TableAlreadyExistsError, job["job"], env.catalog.create_table, (*ns, "t"), ROWS.schema)
    raises(TableAlreadyExistsError, job["job"], env.catalog.register_table, (*ns, "t"), metadata)
    raises(TableAlreadyExistsError, job["job"], env.catalog.register_table, (*ns, "elsewhere"), metadata)
    raises(TableAlreadyExistsError, job["job"], env.catalog.create_table, (*ns, "v"), ROWS.schema, location=table.location())
    raises(TableAlreadyExistsError, job["job"], env.catalog.rename_table, (*ns, "other"), (*ns, "t"))
    staged = env.catalog.create_table_transaction
    raises(CommitFailedException, job["job"], lambda: staged((*ns, "t"), ROWS.schema).commit_transaction())
    raises(NoSuchTableError, "", env.catalog.load_table, (*ns, "t"))
    assert not env.catalog.table_exists((*ns, "t"))
    assert rows(other.scan()) == [1, 2, 3]

    env.storage.unblock(stuck)
    job = env.wait(job["job"])
    assert job["state"] == "SUCCEEDED", job
    assert env.storage.gone(table.location())
    assert rows(env.table((*ns, "t"), MORE).scan()) == [4, 5]


@case
def purge_of_shared_metadata_is_refused(env):
    ns = env.namespace("shared")
    table = env.table((*ns, "t"))
    twin = env.catalog.register_table((*ns, "twin"), table.metadata_location)
    before = env.files()
    for name in ("t", "twin"):
        raises(RESTError, "shares its metadata with", env.catalog.purge_table, (*ns, name))
        assert env.catalog.table_exists((*ns, name))
    assert env.files() == before
    env.catalog.drop_table((*ns, "t"))
    env.catalog.purge_table((*ns, "twin"))
    assert env.storage.gone(twin.location())


@case
def gc_disabled_keeps_the_data(env):
    ns = env.namespace("gc")
    table = env.table((*ns, "t"), properties={"gc.enabled": "false"})
    data = set(data_files(table))
    env.catalog.purge_table((*ns, "t"))
    assert set(env.files(table.location())) == data
    (job,) = env.jobs((*ns, "t"))
    assert job["state"] == "SUCCEEDED", job


@case
def files_outside_the_table_stay(env):
    ns = env.namespace("imported")
    source, table = env.table((*ns, "source")), env.table((*ns, "t"))
    table.add_files(data_files(source))
    others = env.files(without=[table.location()])
    env.catalog.purge_table((*ns, "t"))
    assert_gone(env, table, (*ns, "t"), others)
    assert rows(source.scan()) == [1, 2, 3]
    assert env.jobs((*ns, "t"))[0]["progress"]["skipped"], env.jobs((*ns, "t"))


@case
@blocking
def namespace_with_a_purging_table_can_be_dropped(env):
    ns = env.namespace("gone-too")
    table = env.table((*ns, "t"))
    (stuck,) = data_files(table)
    env.storage.block(stuck)
    env.open(**{"header.X-Gravitino-Async-Purge": "true"}).purge_table((*ns, "t"))
    env.catalog.drop_namespace(ns)
    env.storage.unblock(stuck)
    job = env.wait(env.jobs((*ns, "t"))[0]["job"])
    assert job["state"] == "SUCCEEDED" and env.storage.gone(table.location()), job
