"""The systems whose tables SQL knows, by the name of their connector in WITH (...). A new one has a line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rs_assets.sql.systems import (
    console,
    delta,
    files,
    http,
    kafka,
    mariadb,
    memory,
    mqtt,
    postgres,
    redis,
    rocketmq,
    search,
    sqlite,
    syslog,
    webhook,
)
from rs_assets.sql.systems.form import SqlSink, SqlSource

SQL_SOURCES: Final[Mapping[str, SqlSource]] = MappingProxyType(
    {
        "filesystem": files.SOURCE,
        "delta": delta.SOURCE,
        "postgres-cdc": postgres.SOURCE,
        "mariadb-cdc": mariadb.SOURCE,
        "mysql-cdc": mariadb.MYSQL,
        "kafka": kafka.SOURCE,
        "rocketmq": rocketmq.SOURCE,
        "redis": redis.SOURCE,
        "http": http.SOURCE,
        "mqtt": mqtt.SOURCE,
        "webhook": webhook.SOURCE,
        "syslog": syslog.SOURCE,
        "sqlite": sqlite.SOURCE,
        "memory": memory.SOURCE,
    }
)
SQL_SINKS: Final[Mapping[str, SqlSink]] = MappingProxyType(
    {
        "print": console.SINK,
        "filesystem": files.SINK,
        "delta": delta.SINK,
        "kafka": kafka.SINK,
        "rocketmq": rocketmq.SINK,
        "redis": redis.SINK,
        "http": http.SINK,
        "search": search.SINK,
        "mqtt": mqtt.SINK,
        "sqlite": sqlite.SINK,
        "memory": memory.SINK,
    }
)
