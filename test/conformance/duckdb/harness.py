"""What the cases stand on: DuckDB with the catalog attached, and a look at the disk.

Run by the Go test beside this file, which starts the server:

    python run.py URI TOKEN WAREHOUSE_DIR

One JSON line a case is printed: {"case", "seconds", "error"}; error is null or a traceback.
"""

import importlib.util
import json
import os
import pathlib
import urllib.parse
import urllib.request

import duckdb

CASES = []


def case(function):
    """Register a case. Cases run in the order of the file, each in a schema of its own."""
    CASES.append(function)
    return function


class Env:
    def __init__(self, uri, token, warehouse):
        self.uri, self.token, self.warehouse = uri, token, warehouse
        self.db = self.open()

    def open(self, options=""):
        """A database with the catalog attached as lake."""
        db = duckdb.connect(config={"autoinstall_known_extensions": "false"})
        for name in ("avro", "httpfs", "iceberg"):  # iceberg stands on the others
            package = importlib.util.find_spec("duckdb_extension_" + name)
            (file,) = pathlib.Path(package.submodule_search_locations[0]).glob(f"extensions/*/{name}.duckdb_extension")
            db.sql(f"LOAD '{file}'")
        db.sql(
            f"ATTACH 'default' AS lake (TYPE iceberg, ENDPOINT '{self.uri}/iceberg', TOKEN '{self.token}',"
            f" ACCESS_DELEGATION_MODE 'none'{options})"
        )
        return db

    def sql(self, text, db=None):
        """Run one statement; its rows, if it has some."""
        found = (db or self.db).sql(text)
        return found.fetchall() if found is not None else None

    def schema(self, name):
        self.sql(f"CREATE SCHEMA lake.{name}")
        return f"lake.{name}"

    def table(self, name, clauses=""):
        """A new table that holds three rows, in two data files."""
        self.sql(f"CREATE TABLE {name} (id BIGINT, city VARCHAR) {clauses}")
        self.sql(f"INSERT INTO {name} VALUES (1, 'Drachten'), (2, 'Berlin')")
        self.sql(f"INSERT INTO {name} VALUES (3, 'Paris')")
        return name

    # The server, by its own API.

    def load(self, namespace, name):
        return self.get(f"/iceberg/v1/default/namespaces/{namespace}/tables/{name}")

    def jobs(self, namespace, name):
        return self.get("/v1/jobs?" + urllib.parse.urlencode({"namespace": namespace, "table": name}))["jobs"]

    def get(self, path):
        request = urllib.request.Request(self.uri + path, headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    # The disk.

    def location(self, namespace, name):
        """The directory of a table."""
        location = self.load(namespace, name)["metadata"]["location"]
        assert location.startswith("file:///"), location
        return location[len("file://") :]

    def files(self, without=None):
        """The files of the warehouse with their sizes."""
        found = {}
        for folder, _, names in os.walk(self.warehouse):
            if without and (folder == without or folder.startswith(without + os.sep)):
                continue
            for name in names:
                path = os.path.join(folder, name)
                found[path] = os.path.getsize(path)
        return found


def raises(text, call, *args):
    """Assert that the call fails with an error of DuckDB whose message holds the text."""
    try:
        call(*args)
    except duckdb.Error as error:
        assert text in str(error), f"{text!r} is not in {error!r}"
        return
    raise AssertionError(f"an error with {text!r} expected, nothing was raised")
