"""All connectors. A new one has a line here, and is then known to the compiler, the checks and Dagster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rs_assets.common.node import Node
from rs_assets.connectors.connector import Connector, SinkConnector, SourceConnector
from rs_assets.connectors.console.connector import CONNECTOR as CONSOLE
from rs_assets.connectors.database.connector import CONNECTOR as DATABASE
from rs_assets.connectors.delta.connector import CONNECTOR as DELTA
from rs_assets.connectors.files.connector import CONNECTOR as FILES
from rs_assets.connectors.http.connector import CONNECTOR as HTTP
from rs_assets.connectors.kafka.connector import CONNECTOR as KAFKA
from rs_assets.connectors.mariadb.connector import CONNECTOR as MARIADB
from rs_assets.connectors.memory.connector import CONNECTOR as MEMORY
from rs_assets.connectors.mqtt.connector import CONNECTOR as MQTT
from rs_assets.connectors.own.connector import CONNECTOR as OWN
from rs_assets.connectors.postgres.connector import CONNECTOR as POSTGRES
from rs_assets.connectors.redis.connector import CONNECTOR as REDIS
from rs_assets.connectors.rocketmq.connector import CONNECTOR as ROCKETMQ
from rs_assets.connectors.search.connector import CONNECTOR as SEARCH
from rs_assets.connectors.sqlite.connector import CONNECTOR as SQLITE
from rs_assets.connectors.store.connector import CONNECTOR as STORE
from rs_assets.connectors.syslog.connector import CONNECTOR as SYSLOG
from rs_assets.connectors.webhook.connector import CONNECTOR as WEBHOOK

CONNECTORS: Final[tuple[Connector, ...]] = (
    CONSOLE,
    FILES,
    DELTA,
    DATABASE,
    POSTGRES,
    MARIADB,
    KAFKA,
    ROCKETMQ,
    REDIS,
    HTTP,
    SEARCH,
    MQTT,
    WEBHOOK,
    SYSLOG,
    SQLITE,
    STORE,
    MEMORY,
    OWN,
)
SOURCES: Final[Mapping[type[Node], SourceConnector[Any]]] = {s.node: s for c in CONNECTORS for s in c.sources}
SINKS: Final[Mapping[type[Node], SinkConnector[Any]]] = {s.node: s for c in CONNECTORS for s in c.sinks}
