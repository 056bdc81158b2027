"""The processors in a Spark session, and the types that their state supports."""

from __future__ import annotations

from typing import Any, cast
from weakref import WeakKeyDictionary

from py4j.java_gateway import JavaClass
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DayTimeIntervalType, StructType, YearMonthIntervalType

from rs_assets.errors import ConfigurationError, TopologyError

# The package in each JVM that has it: each part of its name is a call of the JVM.
_KNOWN: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def package_in(spark: SparkSession) -> Any | None:
    """The classes of the project's own jar in a session; None if the session was made without it."""
    jvm = cast("Any", spark._jvm)  # noqa: SLF001  there is no public way
    if jvm not in _KNOWN:
        package = jvm.org.apache.spark.sql.rsassets
        if not isinstance(package.FiringWindows, JavaClass):
            return None
        _KNOWN[jvm] = package
    return _KNOWN[jvm]


def end_monitors(spark: SparkSession) -> None:
    """End the threads that Spark leaves in the JVM for each query over a Python source, with the query's session."""
    package = package_in(spark)
    if package is not None:
        package.PythonSources.endMonitors()


def processors_of(frame: DataFrame) -> Any:
    """The package of the processors in the session of `frame`; ConfigurationError if it was made without their jar."""
    return processors_in(frame.sparkSession)


def processors_in(spark: SparkSession) -> Any:
    """The package of the processors in a session; ConfigurationError if it was made without their jar."""
    package = package_in(spark)
    if package is None:
        raise ConfigurationError(
            "this Spark session lacks the processors of rs_assets",
            remedy="add the jar that `python -m rs_assets.spark.processor.library` names to spark.jars",
        )
    return package


def check_types(schema: StructType) -> None:
    """Refuse types that Spark cannot write into the state of a processor."""
    for field in schema.fields:
        if isinstance(field.dataType, DayTimeIntervalType | YearMonthIntervalType):
            raise TopologyError(
                f"{field.name!r} is an interval, which the state of a processor cannot keep",
                remedy="convert it to a number first: .with_fields(seconds='unix_seconds(a) - unix_seconds(b)')",
            )
