"""MQTT topics as tables of SQL. The names of options are those of RocketMQ-Streams."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from rs_assets.connectors.mqtt.nodes import MqttSource
from rs_assets.sql.systems.collected import kinds_of, of_messages
from rs_assets.sql.systems.form import SqlSink, SqlSource
from rs_assets.sql.systems.secrets import taken_secret

if TYPE_CHECKING:
    from rs_assets.sql.read.options import Options
    from rs_assets.sql.systems.sink_table import SinkTable
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

SOURCE_QOS: Final = {"0": 0, "1": 1}
SINK_QOS: Final = {**SOURCE_QOS, "2": 2}
YES: Final = {"true": True, "false": False}
VERSIONS: Final = {"3.1.1": "3.1.1", "5": "5"}
REFUSED: Final = {"fail": "fail", "dead_letter": "dead_letter"}


def _read(table: SourceTable) -> DataStream | Table:
    options = table.options
    stream = table.begin.from_mqtt(
        options.need("url", "mqtt://localhost:1883"),
        options.need("topic", "plant/#").split(";"),
        qos=options.choice("qos", SOURCE_QOS, "1"),
        client_id=options.take("clientId"),
        clean_session=options.flag("cleanSession"),
        reconnect=options.choice("automaticReconnect", YES, "true"),
        session_expiry=_seconds(options.number("sessionExpiry")),
        **_access(options),
        **of_messages(table),
    )
    return table.rows(stream)


def _write(table: SinkTable) -> DataStream:
    options = table.options
    options.choice("format", {"json": "json"}, "json")
    field = options.take("topic.field")
    return table.stream.to_mqtt(
        options.need("url", "mqtt://localhost:1883"),
        None if field is not None else options.need("topic", "plant/alarms"),
        topic_field=field,
        value=options.take("value.field"),
        qos=options.choice("qos", SINK_QOS, "1"),
        retain=options.flag("retain"),
        refused=options.choice("refused", REFUSED, "fail"),
        name=table.name,
        **_access(options),
    )


def _access(options: Options) -> dict[str, Any]:
    """The login, and how long the broker may be silent; a password that begins with $ is an environment variable's."""
    connect, alive = options.number("connectionTimeout"), options.number("aliveInterval")
    return {
        "username": taken_secret(options, "username"),
        "password": taken_secret(options, "password"),
        "ca": options.take("ca"),
        "connect_timeout": timedelta(seconds=10 if connect is None else connect),
        "keep_alive": timedelta(seconds=60 if alive is None else alive),
        "version": options.choice("version", VERSIONS, "3.1.1"),
    }


def _seconds(number: int | None) -> timedelta | None:
    return None if number is None else timedelta(seconds=number)


SOURCE: Final = SqlSource(read=_read, metadata=kinds_of(MqttSource.facts))
SINK: Final = SqlSink(write=_write)
