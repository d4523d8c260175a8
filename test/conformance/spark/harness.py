"""What the cases stand on: one Spark on two cores, and a look at the disk.

Run by the Go test beside this file, which starts the server:

    python run.py URI TOKEN WAREHOUSE_DIR RUNTIME_JAR SCRATCH_DIR

One JSON line a case is printed: {"case", "seconds", "error"}; error is null or a traceback.

Two catalogs open the same warehouse: lethe asks the server to purge
(rest-catalog-purge=true), plain lets Spark delete the files itself, as it does by default.
"""

import json
import os
import urllib.parse
import urllib.request

from pyspark.sql import SparkSession

CASES = []


def case(function):
    """Register a case. Cases run in the order of the file, each in a namespace of its own."""
    CASES.append(function)
    return function


class Env:
    def __init__(self, uri, token, warehouse, jar, scratch):
        self.uri, self.token, self.warehouse = uri, token, warehouse
        builder = (
            SparkSession.builder.master("local[2]")
            .appName("lethe-conformance")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.extraClassPath", jar)
            # The queries are tiny: starting fast matters more than running fast.
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.local.dir", scratch)
            .config("spark.sql.warehouse.dir", os.path.join(scratch, "spark-warehouse"))
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
            .config("spark.sql.defaultCatalog", "lethe")
        )
        for name in ("lethe", "plain"):
            catalog = f"spark.sql.catalog.{name}"
            builder = (
                builder.config(catalog, "org.apache.iceberg.spark.SparkCatalog")
                .config(f"{catalog}.type", "rest")
                .config(f"{catalog}.uri", uri + "/iceberg")
                .config(f"{catalog}.token", token)
                .config(f"{catalog}.cache-enabled", "false")
            )
        builder = builder.config("spark.sql.catalog.lethe.rest-catalog-purge", "true")
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")

    def sql(self, text):
        """Run one statement; its rows as tuples."""
        return [tuple(row) for row in self.spark.sql(text).collect()]

    def namespace(self, name):
        self.sql(f"CREATE NAMESPACE {name}")
        return name

    def table(self, name, columns="id BIGINT, city STRING", clauses="", **properties):
        """A new table that holds three rows, in two data files."""
        listed = ", ".join(f"'{key.replace('_', '.')}'='{value}'" for key, value in properties.items())
        if listed:
            clauses += f" TBLPROPERTIES ({listed})"
        self.sql(f"CREATE TABLE {name} ({columns}) USING iceberg {clauses}")
        self.sql(f"INSERT INTO {name} VALUES (1, 'Drachten'), (2, 'Berlin')")
        self.sql(f"INSERT INTO {name} VALUES (3, 'Paris')")
        return name

    def ids(self, name, suffix=""):
        """The ids that a table, or a version of it, holds."""
        return [row[0] for row in self.sql(f"SELECT id FROM {name} {suffix} ORDER BY id")]

    def snapshots(self, name):
        """The snapshots of the current state's history, oldest first."""
        return [row[0] for row in self.sql(f"SELECT snapshot_id FROM {name}.history ORDER BY made_current_at")]

    # The server, by its own API.

    def load(self, namespace, name, kind="tables"):
        return self.get(f"/iceberg/v1/default/namespaces/{quote(namespace)}/{kind}/{quote(name)}")

    def jobs(self, namespace, name):
        query = urllib.parse.urlencode({"namespace": namespace, "table": name})
        return self.get(f"/v1/jobs?{query}")["jobs"]

    def get(self, path):
        request = urllib.request.Request(self.uri + path, headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    # The disk.

    def location(self, namespace, name, kind="tables"):
        """The directory of a table or view."""
        location = self.load(namespace, name, kind)["metadata"]["location"]
        assert location.startswith("file:///"), location
        return location[len("file://") :]

    def files(self, under=None, without=None):
        """The files below a directory with their sizes."""
        found = {}
        for folder, _, names in os.walk(under or self.warehouse):
            if without and (folder == without or folder.startswith(without + os.sep)):
                continue
            for name in names:
                path = os.path.join(folder, name)
                found[path] = os.path.getsize(path)
        return found


def quote(name):
    return urllib.parse.quote(name, safe="")


def raises(text, call, *args):
    """Assert that the call fails with an error whose message holds the text."""
    try:
        call(*args)
    except Exception as error:  # noqa: BLE001 (Spark wraps what the catalog throws in many kinds)
        assert text in str(error), f"{text!r} is not in {error!r}"
        return
    raise AssertionError(f"an error with {text!r} expected, nothing was raised")
