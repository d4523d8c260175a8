"""What the cases stand on: a catalog as any user would open it, and a look at its files.

Run by the Go test beside this file, which starts the server:

    python run.py URI TOKEN file:///WAREHOUSE
    python run.py URI TOKEN s3://BUCKET/PREFIX ENDPOINT

PyIceberg is told nothing of the storage: where it is, the server says, and credentials
for a bucket are in the environment.

One JSON line a case is printed: {"case", "seconds", "error"}; error is null or a traceback.
"""

import time
from urllib.parse import quote

import pyarrow as pa
import requests
from pyiceberg.catalog import load_catalog
from storage import open_storage

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "city": ["Drachten", "Berlin", "Paris"]})
MORE = pa.table({"id": pa.array([4, 5], pa.int64()), "city": ["Lisboa", "東京"]})

CASES = []


def case(function):
    """Register a case. Cases run in the order of the file, each in a namespace of its own."""
    CASES.append(function)
    return function


def blocking(function):
    """Mark a case that needs a file which cannot be deleted."""
    function.blocking = True
    return function


class Env:
    def __init__(self, uri, token, root, endpoint=None):
        self.uri, self.token, self.root = uri, token, root
        self.storage = open_storage(root, endpoint)
        self.catalog = self.open()

    def can(self, function):
        return self.storage.can_block or not getattr(function, "blocking", False)

    def open(self, **properties):
        properties = {"type": "rest", "uri": self.uri + "/iceberg", "token": self.token} | properties
        return load_catalog("lethe", **properties)

    def namespace(self, *levels):
        self.catalog.create_namespace(levels)
        return levels

    def table(self, identifier, rows=ROWS, schema=None, **options):
        """A new table that holds the rows."""
        table = self.catalog.create_table(identifier, schema or rows.schema, **options)
        table.append(rows)
        return table

    # Jobs, by the admin API.

    def jobs(self, identifier):
        """The jobs of an identifier, newest first."""
        params = {"namespace": "\x1f".join(identifier[:-1]), "table": identifier[-1]}
        return self.get("/v1/jobs", params=params)["jobs"]

    def wait(self, name, seconds=300):
        """The job when it has ended, or the test fails."""
        over = time.monotonic() + seconds
        while time.monotonic() < over:
            job = self.get(f"/v1/jobs/{name}", params={"wait": 5})
            if job["state"] in ("SUCCEEDED", "FAILED", "CANCELLED"):
                return job
        raise AssertionError(f"{name} has not ended after {seconds} s: {job}")

    def get(self, path, **options):
        answer = requests.get(self.uri + path, headers={"Authorization": f"Bearer {self.token}"}, timeout=70, **options)
        answer.raise_for_status()
        return answer.json()

    def drop_raw(self, identifier, query="", **headers):
        """A drop by plain HTTP, for what PyIceberg cannot say."""
        namespace = "%1F".join(quote(level, safe="") for level in identifier[:-1])
        url = f"{self.uri}/iceberg/v1/default/namespaces/{namespace}/tables/{quote(identifier[-1], safe='')}{query}"
        headers["Authorization"] = f"Bearer {self.token}"
        return requests.delete(url, headers=headers, timeout=70)

    # Its files.

    def files(self, under=None, without=()):
        """The files below a location, each with what changes when it is written anew."""
        found = self.storage.states(under or self.root)
        return {uri: state for uri, state in found if not any(uri.startswith(skip + "/") for skip in without)}


def rows(scan):
    """The ids that a scan finds, sorted."""
    return sorted(scan.to_arrow()["id"].to_pylist())


def data_files(table):
    return [task.file.file_path for task in table.scan().plan_files()]


def raises(kind, text, call, *args, **kwargs):
    """Assert that the call fails with an error of exactly this kind whose message holds the text."""
    try:
        call(*args, **kwargs)
    except kind as error:
        assert type(error) is kind, f"{kind.__name__} expected, not {error!r}"
        assert text in str(error), f"{text!r} is not in {error!r}"
        return
    raise AssertionError(f"{kind.__name__} expected, nothing was raised")
