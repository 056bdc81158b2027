"""Reading from object stores by Spark: jars that are fetched once, by those who need them, and Hadoop's settings.

Only Spark's own readers need the jars; tables are written, and savepoints stored, without them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from rs_assets.common.storage import is_remote, spark_options
from rs_assets.errors import ConfigurationError
from rs_assets.spark.jars import JarList

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FETCH: Final = "rs-assets setup --s3"
S3 = JarList.read(Path(__file__).with_name("s3.lock"), place="s3", variable="RS_S3_JARS", remedy=f"run `{FETCH}`")
FILE_SYSTEM: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
SCHEMES: Final = ("s3", "s3a")


def s3_jars() -> tuple[Path, ...]:
    """The jars for S3 if they were fetched, else none."""
    return S3.paths() if S3.complete else ()


def prepare_reading(spark: SparkSession, path: str) -> None:
    """Let Spark read at `path`, with the options of `use_storage` or of the environment.

    ConfigurationError if `path` is in S3 and the session has not the jars. Nothing for a path of a file system, and for
    other object stores, whose jars and settings are the user's.
    """
    if not is_remote(path) or path.partition("://")[0] not in SCHEMES:
        return
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001  no public way
    if hadoop.getClassByNameOrNull(FILE_SYSTEM) is None:
        raise ConfigurationError(
            f"Spark has no jars for reading {path}", remedy=f"{FETCH}, then start again", folder=str(S3.folder())
        )
    # Spark knows S3 by the name s3a.
    hadoop.set("fs.s3.impl", FILE_SYSTEM)
    for name, value in spark_options().items():
        hadoop.set(name, value)
