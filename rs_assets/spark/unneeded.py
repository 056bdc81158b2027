"""What Spark loads for a session although no pipeline uses it; left out, each saves a part of a second of a start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark looks for Python data sources in installed packages of such names.
LOOKED_UP = "pyspark_"


@contextmanager
def without_learning() -> Iterator[None]:
    """Make sessions, on this thread, without the functions of Spark's machine learning: they take vectors alone.

    The JVM is there. Nothing changes in one that was started without the jar of the processors.
    """
    from py4j.java_gateway import JavaClass
    from pyspark import SparkContext

    jvm = cast("Any", SparkContext)._jvm  # noqa: SLF001  there is no public way
    extensions = jvm.org.apache.spark.sql.rsassets.SessionExtensions
    if not isinstance(extensions, JavaClass):
        yield
        return
    extensions.withoutLearning()
    try:
        yield
    finally:
        extensions.asBefore()


def skip_lookup(spark: SparkSession) -> None:
    """Let Spark know that no installed package brings a Python data source, if so: it would start a Python to look."""
    if _are_installed():
        return
    jvm = cast("Any", spark)._jvm  # noqa: SLF001  there is no public way
    manager = getattr(getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager$"), "MODULE$")
    none = jvm.scala.Some(jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap()))
    getattr(manager, "dataSourceBuilders_$eq")(none)


def _are_installed() -> bool:
    """Whether there is a package in which Spark would look, by its own rule."""
    return any(module.name.startswith(LOOKED_UP) for module in iter_modules())
