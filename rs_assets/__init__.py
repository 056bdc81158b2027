"""Stream pipelines as Dagster assets, on Spark: the public API.

Importing this package loads neither Spark nor Dagster; each name is loaded at its first use.

>>> import rs_assets
>>> rs_assets.Time.seconds(10)
datetime.timedelta(seconds=10)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rs_assets.common.loading import uncollected

if TYPE_CHECKING:
    from rs_assets.catalog.offsets.base import CheckpointRow, CheckpointStorage
    from rs_assets.common.home import Home
    from rs_assets.common.storage import use_storage
    from rs_assets.connectors.delta.files.event_partitions import EventTimePartitions
    from rs_assets.connectors.http.endpoint import HttpEndpoint
    from rs_assets.connectors.kafka.client.cluster import KafkaCluster
    from rs_assets.connectors.kafka.client.oauth import KafkaOAuth
    from rs_assets.connectors.kafka.registry.address import SchemaRegistry
    from rs_assets.connectors.memory import MemoryChannel
    from rs_assets.connectors.rocketmq.client.cluster import RocketMQCluster
    from rs_assets.dagster.assets.translator import StreamStep, StreamTranslator
    from rs_assets.dagster.component import PipelineComponent
    from rs_assets.dagster.definitions_of import build_definitions
    from rs_assets.dagster.deployed.definitions import deployed_definitions
    from rs_assets.dagster.discovery import find_pipelines
    from rs_assets.dagster.resources.join import JoinResource
    from rs_assets.dagster.resources.processor import ProcessorResource
    from rs_assets.dagster.resources.shuffle import ShuffleResource
    from rs_assets.dagster.resources.sink import SinkResource
    from rs_assets.dagster.resources.source import SourceResource
    from rs_assets.dagster.resources.spark import SparkResource
    from rs_assets.dagster.resources.step import StepResource
    from rs_assets.dagster.resources.table import TableResource
    from rs_assets.dagster.resources.window import WindowResource
    from rs_assets.dagster.runs.runtime import RunResource
    from rs_assets.dagster.sensors.alerts import Alert
    from rs_assets.dagster.sensors.recovery import RecoveryPolicy
    from rs_assets.dagster.sensors.rescaling import RescalePolicy
    from rs_assets.deploy.deployments import Deployments
    from rs_assets.errors import RsError
    from rs_assets.expressions.rules.spec import Rules
    from rs_assets.operators.dimension.keys import Network, Range
    from rs_assets.operators.dimension.spec import Dimension
    from rs_assets.operators.join.spec import Interval
    from rs_assets.operators.window.durations import Time
    from rs_assets.operators.window.global_window import GlobalWindow
    from rs_assets.operators.window.over import OverWindow
    from rs_assets.operators.window.spec import (
        CalendarWindow,
        CountWindow,
        CumulateWindow,
        HoppingWindow,
        SessionWindow,
        SlidingWindow,
        TumblingWindow,
    )
    from rs_assets.records.policy import BadRecords
    from rs_assets.runtime.options import RunOptions, SavepointPolicy
    from rs_assets.runtime.report import RunReport
    from rs_assets.runtime.run.running import RunningPipeline
    from rs_assets.sql.plan.build import pipeline_from_sql
    from rs_assets.stream.builder import StreamBuilder
    from rs_assets.stream.pipeline import Pipeline
    from rs_assets.topology.user_code.called import functions
    from rs_assets.topology.user_code.deferred import F
    from rs_assets.topology.user_code.expression import column
    from rs_assets.topology.user_code.processor import Processor
    from rs_assets.topology.user_code.stores import ListStore, MapStore, ValueStore
    from rs_assets.topology.user_code.timed_stores import SessionStore, VersionedStore, WindowStore
    from rs_assets.udf.declare import aggregate_function, function, table_function

__all__ = [
    "Alert",
    "BadRecords",
    "CalendarWindow",
    "CheckpointRow",
    "CheckpointStorage",
    "CountWindow",
    "CumulateWindow",
    "Deployments",
    "Dimension",
    "EventTimePartitions",
    "F",
    "GlobalWindow",
    "Home",
    "HoppingWindow",
    "HttpEndpoint",
    "Interval",
    "JoinResource",
    "KafkaCluster",
    "KafkaOAuth",
    "ListStore",
    "MapStore",
    "MemoryChannel",
    "Network",
    "OverWindow",
    "Pipeline",
    "PipelineComponent",
    "Processor",
    "ProcessorResource",
    "Range",
    "RecoveryPolicy",
    "RescalePolicy",
    "RocketMQCluster",
    "RsError",
    "Rules",
    "RunOptions",
    "RunReport",
    "RunResource",
    "RunningPipeline",
    "SavepointPolicy",
    "SchemaRegistry",
    "SessionStore",
    "SessionWindow",
    "ShuffleResource",
    "SinkResource",
    "SlidingWindow",
    "SourceResource",
    "SparkResource",
    "StepResource",
    "StreamBuilder",
    "StreamStep",
    "StreamTranslator",
    "TableResource",
    "Time",
    "TumblingWindow",
    "ValueStore",
    "VersionedStore",
    "WindowResource",
    "WindowStore",
    "aggregate_function",
    "build_definitions",
    "column",
    "deployed_definitions",
    "find_pipelines",
    "function",
    "functions",
    "pipeline_from_sql",
    "table_function",
    "use_storage",
]

# The module of each public name.
HOMES = {
    "Alert": "rs_assets.dagster.sensors.alerts",
    "BadRecords": "rs_assets.records.policy",
    "CalendarWindow": "rs_assets.operators.window.spec",
    "CountWindow": "rs_assets.operators.window.spec",
    "CumulateWindow": "rs_assets.operators.window.spec",
    "Deployments": "rs_assets.deploy.deployments",
    "Dimension": "rs_assets.operators.dimension.spec",
    "EventTimePartitions": "rs_assets.connectors.delta.files.event_partitions",
    "F": "rs_assets.topology.user_code.deferred",
    "GlobalWindow": "rs_assets.operators.window.global_window",
    "Home": "rs_assets.common.home",
    "HoppingWindow": "rs_assets.operators.window.spec",
    "HttpEndpoint": "rs_assets.connectors.http.endpoint",
    "Interval": "rs_assets.operators.join.spec",
    "JoinResource": "rs_assets.dagster.resources.join",
    "KafkaCluster": "rs_assets.connectors.kafka.client.cluster",
    "KafkaOAuth": "rs_assets.connectors.kafka.client.oauth",
    "MemoryChannel": "rs_assets.connectors.memory",
    "Network": "rs_assets.operators.dimension.keys",
    "OverWindow": "rs_assets.operators.window.over",
    "Pipeline": "rs_assets.stream.pipeline",
    "PipelineComponent": "rs_assets.dagster.component",
    "Range": "rs_assets.operators.dimension.keys",
    "RocketMQCluster": "rs_assets.connectors.rocketmq.client.cluster",
    "RsError": "rs_assets.errors",
    "Rules": "rs_assets.expressions.rules.spec",
    "RunOptions": "rs_assets.runtime.options",
    "RunReport": "rs_assets.runtime.report",
    "RunResource": "rs_assets.dagster.runs.runtime",
    "RunningPipeline": "rs_assets.runtime.run.running",
    "SavepointPolicy": "rs_assets.runtime.options",
    "CheckpointStorage": "rs_assets.catalog.offsets.base",
    "CheckpointRow": "rs_assets.catalog.offsets.base",
    "SchemaRegistry": "rs_assets.connectors.kafka.registry.address",
    "SessionWindow": "rs_assets.operators.window.spec",
    "SlidingWindow": "rs_assets.operators.window.spec",
    "ProcessorResource": "rs_assets.dagster.resources.processor",
    "ShuffleResource": "rs_assets.dagster.resources.shuffle",
    "SinkResource": "rs_assets.dagster.resources.sink",
    "SourceResource": "rs_assets.dagster.resources.source",
    "SparkResource": "rs_assets.dagster.resources.spark",
    "StepResource": "rs_assets.dagster.resources.step",
    "TableResource": "rs_assets.dagster.resources.table",
    "StreamBuilder": "rs_assets.stream.builder",
    "StreamStep": "rs_assets.dagster.assets.translator",
    "StreamTranslator": "rs_assets.dagster.assets.translator",
    "Time": "rs_assets.operators.window.durations",
    "TumblingWindow": "rs_assets.operators.window.spec",
    "WindowResource": "rs_assets.dagster.resources.window",
    "aggregate_function": "rs_assets.udf.declare",
    "build_definitions": "rs_assets.dagster.definitions_of",
    "column": "rs_assets.topology.user_code.expression",
    "function": "rs_assets.udf.declare",
    "functions": "rs_assets.topology.user_code.called",
    "deployed_definitions": "rs_assets.dagster.deployed.definitions",
    "find_pipelines": "rs_assets.dagster.discovery",
    "pipeline_from_sql": "rs_assets.sql.plan.build",
    "table_function": "rs_assets.udf.declare",
    "use_storage": "rs_assets.common.storage",
    "Processor": "rs_assets.topology.user_code.processor",
    "RecoveryPolicy": "rs_assets.dagster.sensors.recovery",
    "RescalePolicy": "rs_assets.dagster.sensors.rescaling",
    "ValueStore": "rs_assets.topology.user_code.stores",
    "MapStore": "rs_assets.topology.user_code.stores",
    "ListStore": "rs_assets.topology.user_code.stores",
    "WindowStore": "rs_assets.topology.user_code.timed_stores",
    "SessionStore": "rs_assets.topology.user_code.timed_stores",
    "VersionedStore": "rs_assets.topology.user_code.timed_stores",
}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    if name in HOMES:
        with uncollected():
            return getattr(importlib.import_module(HOMES[name]), name)
    raise AttributeError(f"module 'rs_assets' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return __all__
