"""Delta tables at a path or in an object store, with the options of `use_storage`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from rs_assets.common.files import write_atomically
from rs_assets.common.folder import Folder
from rs_assets.common.storage import is_remote, storage_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Each open table has a client of its own for its store.
OPEN_STORES = 64


def delta_table(path: str, version: int | None = None) -> DeltaTable:
    """The table at `path`; errors are those of delta-rs."""
    return DeltaTable(path, version=version, storage_options=storage_options(path))


def rows_at(spark: SparkSession, path: str, version: int) -> DataFrame:
    """The rows of a version of the table at `path`."""
    return spark.read.format("delta").option("versionAsOf", version).load(path)


def is_table(path: str) -> bool:
    """Whether there is a table at `path`."""
    return DeltaTable.is_deltatable(path, storage_options(path))


def log_names(path: str) -> list[str]:
    """The names of the files in the log of a table."""
    if not is_remote(path):
        return [file.name for file in (Path(path) / "_delta_log").iterdir()]
    return [info.base_name for info in files_of(path).get_file_info(fs.FileSelector("_delta_log"))]


def log_bytes(path: str, version: int) -> bytes:
    """The content of the log entry of a version; FileNotFoundError if there is none (any more)."""
    name = f"_delta_log/{version:020d}.json"
    if not is_remote(path):
        return (Path(path) / name).read_bytes()
    return read_file(path, name)


def files_of(path: str) -> fs.FileSystem:
    """The files of the table at `path`, by their names in it."""
    return store(path, storage_options(path))


def read_file(path: str, name: str) -> bytes:
    """The content of a file below `path`, an address; FileNotFoundError if there is none."""
    with files_of(path).open_input_stream(name) as stream:
        return bytes(stream.readall())


def write_file(path: str, name: str, content: bytes) -> None:
    """Replace a file below `path`, an address: readers see the old content or the new one. OSError if that fails."""
    # With a buffer for all of it: otherwise Arrow hands over an object that the store does not take.
    with files_of(path).open_output_stream(name, buffer_size=len(content) + 1) as stream:
        if content:
            stream.write(content)


def replace_in(folder: Folder, name: str, content: bytes, *, durable: bool = True) -> None:
    """Replace the file `name` of a folder at once; on a disk it may be `durable`. OSError if that fails."""
    if isinstance(folder, Path):
        write_atomically(folder / name, content, durable=durable)
    else:
        write_file(str(folder), name, content)


def content_of(folder: Folder, name: str) -> bytes:
    """The content of the file `name` of a folder; FileNotFoundError if there is none."""
    return (folder / name).read_bytes() if isinstance(folder, Path) else read_file(str(folder), name)


def store(path: str, options: Mapping[str, str] | None) -> fs.FileSystem:
    """The files below `path`, with these options of delta-rs."""
    return _store(path, frozenset((options or {}).items()))


@lru_cache(maxsize=OPEN_STORES)
def _store(path: str, options: frozenset[tuple[str, str]]) -> fs.FileSystem:
    return fs.PyFileSystem(DeltaStorageHandler(path, dict(options)))
