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
    from rs_assets.engine.shuffle.resource import ShuffleResource
    from rs_assets.engine.sink.resource import SinkResource
    from rs_assets.engine.source.memory import MemoryChannel
    from rs_assets.engine.source.policy import BadRecords
    from rs_assets.engine.source.resource import SourceResource
    from rs_assets.engine.spark.resource import SparkResource
    from rs_assets.engine.window.resource import WindowResource
    from rs_assets.engine.window.spec import HoppingWindow, SessionWindow, Time, TumblingWindow
    from rs_assets.errors import RsError
    from rs_assets.orchestration.definitions_of import build_definitions
    from rs_assets.orchestration.runtime import RunResource
    from rs_assets.pipeline.runtime.options import RunOptions, SavepointPolicy
    from rs_assets.pipeline.runtime.report import RunReport
    from rs_assets.pipeline.runtime.running import RunningPipeline
    from rs_assets.pipeline.stream.builder import StreamBuilder
    from rs_assets.pipeline.stream.pipeline import Pipeline
    from rs_assets.pipeline.topology.expression import column

__all__ = [
    "BadRecords",
    "HoppingWindow",
    "KafkaCluster",
    "MemoryChannel",
    "Pipeline",
    "RsError",
    "RunOptions",
    "RunReport",
    "RunResource",
    "RunningPipeline",
    "SavepointPolicy",
    "SessionWindow",
    "ShuffleResource",
    "SinkResource",
    "SourceResource",
    "SparkResource",
    "StreamBuilder",
    "Time",
    "TumblingWindow",
    "WindowResource",
    "build_definitions",
    "column",
]

# Where each public name lives.
HOMES = {
    "BadRecords": "rs_assets.engine.source.policy",
    "HoppingWindow": "rs_assets.engine.window.spec",
    "KafkaCluster": "rs_assets.engine.connect.kafka.cluster",
    "MemoryChannel": "rs_assets.engine.source.memory",
    "Pipeline": "rs_assets.pipeline.stream.pipeline",
    "RsError": "rs_assets.errors",
    "RunOptions": "rs_assets.pipeline.runtime.options",
    "RunReport": "rs_assets.pipeline.runtime.report",
    "RunResource": "rs_assets.orchestration.runtime",
    "RunningPipeline": "rs_assets.pipeline.runtime.running",
    "SavepointPolicy": "rs_assets.pipeline.runtime.options",
    "SessionWindow": "rs_assets.engine.window.spec",
    "ShuffleResource": "rs_assets.engine.shuffle.resource",
    "SinkResource": "rs_assets.engine.sink.resource",
    "SourceResource": "rs_assets.engine.source.resource",
    "SparkResource": "rs_assets.engine.spark.resource",
    "StreamBuilder": "rs_assets.pipeline.stream.builder",
    "Time": "rs_assets.engine.window.spec",
    "TumblingWindow": "rs_assets.engine.window.spec",
    "WindowResource": "rs_assets.engine.window.resource",
    "build_definitions": "rs_assets.orchestration.definitions_of",
    "column": "rs_assets.pipeline.topology.expression",
}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    if name in HOMES:
        return getattr(importlib.import_module(HOMES[name]), name)
    raise AttributeError(f"module 'rs_assets' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return __all__
