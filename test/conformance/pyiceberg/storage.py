"""Where the server keeps its tables, looked at past it: by URI, on the disk or in a bucket."""

import hashlib
import os
import shutil

from pyarrow import fs


class Local:
    """A directory."""

    can_block = True

    def __init__(self, root):
        self.root = root

    def states(self, under):
        """The files below a location, each with the hash of its bytes."""
        for folder, _, names in os.walk(_path(under)):
            for name in names:
                uri = "file://" + os.path.join(folder, name)
                yield uri, hashlib.sha256(self.read(uri)).hexdigest()

    def read(self, uri):
        with open(_path(uri), "rb") as file:
            return file.read()

    def write(self, uri, content):
        with open(_path(uri), "wb") as out:
            out.write(content)

    def gone(self, location):
        """Nothing is left, not even the directory."""
        return not os.path.exists(_path(location))

    def block(self, uri):
        """Put a directory with something in it where a file was: it cannot be deleted as a file."""
        os.remove(_path(uri))
        os.mkdir(_path(uri))
        self.write(uri + "/in-the-way", b"")

    def unblock(self, uri):
        shutil.rmtree(_path(uri))


def _path(location):
    """The path of a file: location, byte for byte."""
    assert location.startswith("file:///"), location
    return location[len("file://") :]


class S3:
    """A bucket. Credentials are in the environment, by the names of the AWS SDKs."""

    can_block = False  # whoever may write may delete

    def __init__(self, root, endpoint):
        self.root = root
        self.fs = fs.S3FileSystem(endpoint_override=endpoint, region="us-east-1")

    def states(self, under):
        """The objects below a location, each with its size and when it was written."""
        found = self.fs.get_file_info(fs.FileSelector(_key(under), recursive=True, allow_not_found=True))
        return [("s3://" + info.path, (info.size, info.mtime_ns)) for info in found if info.type == fs.FileType.File]

    def read(self, uri):
        with self.fs.open_input_stream(_key(uri)) as file:
            return file.read()

    def write(self, uri, content):
        with self.fs.open_output_stream(_key(uri)) as out:
            out.write(content)

    def gone(self, location):
        return not self.states(location)


def _key(location):
    """The bucket and key of an s3: location, byte for byte."""
    assert location.startswith("s3://"), location
    return location[len("s3://") :]


def open_storage(root, endpoint=None):
    return S3(root, endpoint) if root.startswith("s3://") else Local(root)
