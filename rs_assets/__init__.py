"""Stream pipelines as Dagster assets, on Spark: the public API.

Importing this package loads neither Spark nor Dagster; each name is loaded at its first use.

>>> import rs_assets
>>> rs_assets.Time.seconds(10)
datetime.timedelta(seconds=10)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rs_assets.engine.connect.kafka.cluster import KafkaCluster
    from rs_assets.engine.dimension.spec import Dimension
    from rs_assets.engine.home import Home
    from rs_assets.engine.join.resource import JoinResource
    from rs_assets.engine.join.spec import Interval
    from rs_assets.engine.shuffle.resource import ShuffleResource
    from rs_assets.engine.sink.resource import SinkResource
    from rs_assets.engine.source.memory import MemoryChannel
    from rs_assets.engine.source.policy import BadRecords
    from rs_assets.engine.source.resource import SourceResource
    from rs_assets.engine.spark.resource import SparkResource
    from rs_assets.engine.window.durations import Time
    from rs_assets.engine.window.over import OverWindow
    from rs_assets.engine.window.resource import WindowResource
    from rs_assets.engine.window.spec import (
        CalendarWindow,
        CountWindow,
        CumulateWindow,
        HoppingWindow,
        SessionWindow,
        SlidingWindow,
        TumblingWindow,
    )
    from rs_assets.engine.window.whole import GlobalWindow
    from rs_assets.errors import RsError
    from rs_assets.orchestration.component import PipelineComponent
    from rs_assets.orchestration.definitions_of import build_definitions
    from rs_assets.orchestration.deployed.definitions import deployed_definitions
    from rs_assets.orchestration.discovery import find_pipelines
    from rs_assets.orchestration.runtime import RunResource
    from rs_assets.orchestration.sensors.alerts import Alert
    from rs_assets.orchestration.translator import StreamStep, StreamTranslator
    from rs_assets.pipeline.deploy.deployments import Deployments
    from rs_assets.pipeline.function.declare import aggregate_function, function, table_function
    from rs_assets.pipeline.language.sql.build import pipeline_from_sql
    from rs_assets.pipeline.runtime.options import RunOptions, SavepointPolicy
    from rs_assets.pipeline.runtime.report import RunReport
    from rs_assets.pipeline.runtime.run.running import RunningPipeline
    from rs_assets.pipeline.stream.builder import StreamBuilder
    from rs_assets.pipeline.stream.pipeline import Pipeline
    from rs_assets.pipeline.topology.called import functions
    from rs_assets.pipeline.topology.deferred import F
    from rs_assets.pipeline.topology.expression import column

__all__ = [
    "Alert",
    "BadRecords",
    "CalendarWindow",
    "CountWindow",
    "CumulateWindow",
    "Deployments",
    "Dimension",
    "F",
    "GlobalWindow",
    "Home",
    "HoppingWindow",
    "Interval",
    "JoinResource",
    "KafkaCluster",
    "MemoryChannel",
    "OverWindow",
    "Pipeline",
    "PipelineComponent",
    "RsError",
    "RunOptions",
    "RunReport",
    "RunResource",
    "RunningPipeline",
    "SavepointPolicy",
    "SessionWindow",
    "ShuffleResource",
    "SinkResource",
    "SlidingWindow",
    "SourceResource",
    "SparkResource",
    "StreamBuilder",
    "StreamStep",
    "StreamTranslator",
    "Time",
    "TumblingWindow",
    "WindowResource",
    "aggregate_function",
    "build_definitions",
    "column",
    "deployed_definitions",
    "find_pipelines",
    "function",
    "functions",
    "pipeline_from_sql",
    "table_function",
]

# Where each public name lives.
HOMES = {
    "Alert": "rs_assets.orchestration.sensors.alerts",
    "BadRecords": "rs_assets.engine.source.policy",
    "CalendarWindow": "rs_assets.engine.window.spec",
    "CountWindow": "rs_assets.engine.window.spec",
    "CumulateWindow": "rs_assets.engine.window.spec",
    "Deployments": "rs_assets.pipeline.deploy.deployments",
    "Dimension": "rs_assets.engine.dimension.spec",
    "F": "rs_assets.pipeline.topology.deferred",
    "GlobalWindow": "rs_assets.engine.window.whole",
    "Home": "rs_assets.engine.home",
    "HoppingWindow": "rs_assets.engine.window.spec",
    "Interval": "rs_assets.engine.join.spec",
    "JoinResource": "rs_assets.engine.join.resource",
    "KafkaCluster": "rs_assets.engine.connect.kafka.cluster",
    "MemoryChannel": "rs_assets.engine.source.memory",
    "OverWindow": "rs_assets.engine.window.over",
    "Pipeline": "rs_assets.pipeline.stream.pipeline",
    "PipelineComponent": "rs_assets.orchestration.component",
    "RsError": "rs_assets.errors",
    "RunOptions": "rs_assets.pipeline.runtime.options",
    "RunReport": "rs_assets.pipeline.runtime.report",
    "RunResource": "rs_assets.orchestration.runtime",
    "RunningPipeline": "rs_assets.pipeline.runtime.run.running",
    "SavepointPolicy": "rs_assets.pipeline.runtime.options",
    "SessionWindow": "rs_assets.engine.window.spec",
    "SlidingWindow": "rs_assets.engine.window.spec",
    "ShuffleResource": "rs_assets.engine.shuffle.resource",
    "SinkResource": "rs_assets.engine.sink.resource",
    "SourceResource": "rs_assets.engine.source.resource",
    "SparkResource": "rs_assets.engine.spark.resource",
    "StreamBuilder": "rs_assets.pipeline.stream.builder",
    "StreamStep": "rs_assets.orchestration.translator",
    "StreamTranslator": "rs_assets.orchestration.translator",
    "Time": "rs_assets.engine.window.durations",
    "TumblingWindow": "rs_assets.engine.window.spec",
    "WindowResource": "rs_assets.engine.window.resource",
    "aggregate_function": "rs_assets.pipeline.function.declare",
    "build_definitions": "rs_assets.orchestration.definitions_of",
    "column": "rs_assets.pipeline.topology.expression",
    "function": "rs_assets.pipeline.function.declare",
    "functions": "rs_assets.pipeline.topology.called",
    "deployed_definitions": "rs_assets.orchestration.deployed.definitions",
    "find_pipelines": "rs_assets.orchestration.discovery",
    "pipeline_from_sql": "rs_assets.pipeline.language.sql.build",
    "table_function": "rs_assets.pipeline.function.declare",
}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    if name in HOMES:
        return getattr(importlib.import_module(HOMES[name]), name)
    raise AttributeError(f"module 'rs_assets' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return __all__
