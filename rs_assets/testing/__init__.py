"""Testing pipelines: rows through steps, ops or a processor, a driver and captured batches, and real servers.

The servers are Kafka, MariaDB, an MQTT broker, Postgres, Redis, RocketMQ and S3, and stubs of a schema registry, an
HTTP service and an index server. Importing this package loads neither Spark nor a client of those; each name is loaded
at its first use.

>>> from rs_assets import testing
>>> testing.KafkaBroker.__name__
'KafkaBroker'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rs_assets.testing.captured import replay
    from rs_assets.testing.conformance import SinkCase, SourceCase, check_sink, check_source
    from rs_assets.testing.driver import PipelineDriver
    from rs_assets.testing.ops import OpRun, run_op
    from rs_assets.testing.pipeline import PipelineCheck, PipelineFinding, check_pipeline
    from rs_assets.testing.processor import ProcessorTest
    from rs_assets.testing.rows import run_rows
    from rs_assets.testing.servers.http import HttpRequest, HttpServer
    from rs_assets.testing.servers.kafka import KafkaBroker, KafkaRecord
    from rs_assets.testing.servers.kafka_security import BrokerSecurity
    from rs_assets.testing.servers.mariadb import MariaDbServer
    from rs_assets.testing.servers.mqtt import MqttBroker
    from rs_assets.testing.servers.postgres import PostgresServer
    from rs_assets.testing.servers.redis import RedisServer
    from rs_assets.testing.servers.registry import SchemaRegistryServer
    from rs_assets.testing.servers.rocketmq import RocketMQMessage, RocketMQServer
    from rs_assets.testing.servers.s3 import S3Server
    from rs_assets.testing.servers.search import SearchServer

__all__ = [
    "BrokerSecurity",
    "HttpRequest",
    "HttpServer",
    "KafkaBroker",
    "KafkaRecord",
    "MariaDbServer",
    "MqttBroker",
    "OpRun",
    "PipelineCheck",
    "PipelineDriver",
    "PipelineFinding",
    "PostgresServer",
    "ProcessorTest",
    "RedisServer",
    "RocketMQMessage",
    "RocketMQServer",
    "S3Server",
    "SchemaRegistryServer",
    "SearchServer",
    "SinkCase",
    "SourceCase",
    "check_pipeline",
    "check_sink",
    "check_source",
    "replay",
    "run_op",
    "run_rows",
]

# The module of each public name.
HOMES = {
    "BrokerSecurity": "rs_assets.testing.servers.kafka_security",
    "HttpRequest": "rs_assets.testing.servers.http",
    "HttpServer": "rs_assets.testing.servers.http",
    "KafkaBroker": "rs_assets.testing.servers.kafka",
    "KafkaRecord": "rs_assets.testing.servers.kafka",
    "MariaDbServer": "rs_assets.testing.servers.mariadb",
    "MqttBroker": "rs_assets.testing.servers.mqtt",
    "OpRun": "rs_assets.testing.ops",
    "PipelineCheck": "rs_assets.testing.pipeline",
    "PipelineDriver": "rs_assets.testing.driver",
    "PipelineFinding": "rs_assets.testing.pipeline",
    "PostgresServer": "rs_assets.testing.servers.postgres",
    "ProcessorTest": "rs_assets.testing.processor",
    "RedisServer": "rs_assets.testing.servers.redis",
    "RocketMQMessage": "rs_assets.testing.servers.rocketmq",
    "RocketMQServer": "rs_assets.testing.servers.rocketmq",
    "S3Server": "rs_assets.testing.servers.s3",
    "SchemaRegistryServer": "rs_assets.testing.servers.registry",
    "SearchServer": "rs_assets.testing.servers.search",
    "SinkCase": "rs_assets.testing.conformance",
    "SourceCase": "rs_assets.testing.conformance",
    "check_pipeline": "rs_assets.testing.pipeline",
    "check_sink": "rs_assets.testing.conformance",
    "check_source": "rs_assets.testing.conformance",
    "replay": "rs_assets.testing.captured",
    "run_op": "rs_assets.testing.ops",
    "run_rows": "rs_assets.testing.rows",
}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    if name in HOMES:
        return getattr(importlib.import_module(HOMES[name]), name)
    raise AttributeError(f"module 'rs_assets.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return __all__
