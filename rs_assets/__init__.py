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
    from pipelines.runtime.options import RunOptions
    from pipelines.runtime.report import RunReport
    from pipelines.runtime.running import RunningPipeline
    from pipelines.stream.builder import StreamBuilder
    from pipelines.stream.pipeline import Pipeline
    from pipelines.topology.expression import column
    from resources.errors import RsError
    from resources.kafka.cluster import KafkaCluster
    from resources.source.memory import MemoryChannel
    from resources.source.policy import BadRecords
    from resources.window.spec import HoppingWindow, SessionWindow, Time, TumblingWindow
    from rs_assets.definitions_of import build_definitions

__all__ = [
    "BadRecords",
    "HoppingWindow",
    "KafkaCluster",
    "MemoryChannel",
    "Pipeline",
    "RsError",
    "RunOptions",
    "RunReport",
    "RunningPipeline",
    "SessionWindow",
    "StreamBuilder",
    "Time",
    "TumblingWindow",
    "build_definitions",
    "column",
]

# Where each public name lives.
HOMES = {
    "BadRecords": "resources.source.policy",
    "HoppingWindow": "resources.window.spec",
    "KafkaCluster": "resources.kafka.cluster",
    "MemoryChannel": "resources.source.memory",
    "Pipeline": "pipelines.stream.pipeline",
    "RsError": "resources.errors",
    "RunOptions": "pipelines.runtime.options",
    "RunReport": "pipelines.runtime.report",
    "RunningPipeline": "pipelines.runtime.running",
    "SessionWindow": "resources.window.spec",
    "StreamBuilder": "pipelines.stream.builder",
    "Time": "resources.window.spec",
    "TumblingWindow": "resources.window.spec",
    "build_definitions": "rs_assets.definitions_of",
    "column": "pipelines.topology.expression",
}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    if name in HOMES:
        return getattr(importlib.import_module(HOMES[name]), name)
    raise AttributeError(f"module 'rs_assets' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return __all__
