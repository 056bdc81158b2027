"""Sources whose messages are collected: they are sent once, and read from the log of a collector."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from rs_assets.common.names import one_or_more
from rs_assets.common.secrets import Secret
from rs_assets.connectors.collector.nodes import CollectedFormat, log_folder
from rs_assets.connectors.mqtt.broker import MqttBroker, MqttVersion
from rs_assets.connectors.mqtt.nodes import MqttSource
from rs_assets.connectors.nodes import Source
from rs_assets.connectors.syslog.nodes import SYSLOG_SCHEMA, SyslogProtocol, SyslogSource
from rs_assets.connectors.webhook.nodes import WebhookSource
from rs_assets.records.policy import BadRecords
from rs_assets.records.schema import Schema, schema_text
from rs_assets.stream.draft import Draft

if TYPE_CHECKING:
    from rs_assets.stream.data_stream import DataStream

KEEP = timedelta(days=7)


class CollectedSources:
    """The sources that need a collector; part of `DataStreamSource`."""

    __slots__ = ()

    draft: Draft

    @abstractmethod
    def _begin(self, source: Source) -> DataStream:
        """A stream of the source."""

    def from_mqtt(
        self,
        url: str,
        topics: str | Sequence[str],
        *,
        format: CollectedFormat = "json",  # noqa: A002  as in from_file
        schema: Schema | None = None,
        pattern: str | None = None,
        time_format: str | None = None,
        delimiter: str = ",",
        qos: int = 1,
        client_id: str | None = None,
        username: Secret | None = None,
        password: Secret | None = None,
        ca: str | None = None,
        clean_session: bool = False,
        connect_timeout: timedelta = timedelta(seconds=10),
        keep_alive: timedelta = timedelta(seconds=60),
        version: MqttVersion = "3.1.1",
        session_expiry: timedelta | None = None,
        reconnect: bool = True,
        metadata: Sequence[str] = (),
        keep: timedelta = KEEP,
        collect: bool = True,
        log: str | None = None,
        bad_records: str | BadRecords = BadRecords.FAIL,
        max_rows_per_batch: int | None = 100_000,
        name: str = "mqtt",
    ) -> DataStream:
        """Messages of MQTT topics, at least once into a log on the disk and exactly once from it; unbounded.

        Typical uses: sensors, machines, home automation. A broker sends a message once, so a collector writes it to the
        log before it acknowledges it: `rs-assets collect NAME`, or the run itself if no other process collects. What
        arrives while no collector runs waits at the broker, in the session of `client_id`, as far as the broker keeps
        it. A message whose acknowledgement was lost comes again, and is in the log twice. See docs/collectors.md.

        - `url` (str): "mqtt://host:1883", or "mqtts://host:8883" for TLS; "tcp://" and "ssl://" mean the same.
        - `topics` (str, or several): "plant/7/temperature", with "+" for any level and "#" for all below. Collectors
          that subscribe to "$share/hot/plant/#" share its messages, each of which goes to one of them.
        - `format` (default "json"): "json" and "csv" give the fields of `schema`, "text" the field `value` or the
          groups of `pattern`, "raw" the field `value` (binary). A blank message is not a record.
        - `schema` (default for JSON: inferred from the first messages, then pinned).
        - `pattern`, `time_format`, `delimiter`: as in `from_file`.
        - `qos` (0 or 1, default 1): with 0 the broker sends without an acknowledgement, so messages may be lost.
        - `client_id` (str, default: made of the pipeline's and the step's name): names the session. Two clients with
          the same one interrupt each other.
        - `username`, `password` (text or, better, Dagster's `EnvVar`).
        - `ca` (str, default: the authorities of the system): the file of those that signed the broker's certificate.
        - `clean_session` (bool, default False): True gives up what arrives while no collector runs; it needs qos=0.
        - `connect_timeout` (timedelta, default 10 s), `keep_alive` (timedelta, default 60 s: a broker that is silent
          for longer is taken for gone).
        - `version` ("3.1.1" or "5", default "3.1.1"): that of the protocol. With 5 an error names the broker's reason.
        - `session_expiry` (timedelta, default: never): with version 5, how long the broker keeps the session while no
          collector is connected. Afterwards messages are lost, which is logged.
        - `reconnect` (bool, default True): whether the collector connects again when the connection is lost.
        - `metadata` (sequence of "topic", "received_at", "qos", "retain"; default none): adds fields `mqtt_topic`...
        - `keep` (timedelta, default 7 days): how long messages stay in the log after they were received, if they were
          read; what a checkpoint or a savepoint needs stays longer.
        - `collect` (bool, default True): whether a run collects if no other process does.
        - `log` (str, default: a folder of the home): the folder of the log.
        - `bad_records` (default "fail").
        - `max_rows_per_batch` (int, default 100,000; None: no limit).
        - `name` (str, default "mqtt").

        >>> from rs_assets import StreamBuilder
        >>> plant = StreamBuilder.data_stream("docs", "plant")
        >>> stream = plant.from_mqtt("mqtt://localhost", "plant/#", schema="celsius double", metadata=["topic"])
        >>> print(stream.filter("celsius > 90").to_print().build().describe())
        docs.plant  fingerprint ...
          mqtt      mqtt_source  [json plant/#]
          filter_1  filter <- mqtt  [celsius > 90]
          print     print_sink <- filter_1
        """
        broker = MqttBroker(
            url=url,
            username=username,
            password=password,
            ca=ca,
            connect_timeout=connect_timeout,
            keep_alive=keep_alive,
            version=version,
            session_expiry=session_expiry,
        )
        place = (self.draft.namespace, self.draft.job, name)
        return self._begin(
            MqttSource(
                name=name,
                broker=broker,
                topics=one_or_more(topics),
                qos=qos,
                client_id=client_id or "-".join(("rs", *place)),
                clean_session=clean_session,
                reconnect=reconnect,
                log=log_folder(*place, log),
                format=format,
                schema=schema_text(schema, step=name),
                pattern=pattern,
                time_format=time_format,
                delimiter=delimiter,
                metadata=one_or_more(metadata),
                keep=keep,
                collect=collect,
                policy=BadRecords.of(bad_records),
                max_rows_per_batch=max_rows_per_batch,
            )
        )

    def from_webhook(
        self,
        path: str,
        port: int,
        *,
        token: Secret | None = None,
        host: str = "127.0.0.1",
        max_bytes: int = 1 << 20,
        format: CollectedFormat = "json",  # noqa: A002  as in from_file
        schema: Schema | None = None,
        pattern: str | None = None,
        time_format: str | None = None,
        delimiter: str = ",",
        metadata: Sequence[str] = (),
        keep: timedelta = KEEP,
        collect: bool = True,
        log: str | None = None,
        bad_records: str | BadRecords = BadRecords.FAIL,
        max_rows_per_batch: int | None = 100_000,
        name: str = "webhook",
    ) -> DataStream:
        """Records of POST requests, at least once into a log on the disk and exactly once from it; unbounded.

        Typical uses: events of services that call a URL, forms, devices without a broker. A collector is the server: it
        answers 200 when the records are on the disk. `rs-assets collect NAME` runs it, or the run itself if no other
        process collects. A body of JSON is one value, an array of records, or several values, such as JSON lines; other
        formats have a record in each line, "raw" one in a body. All records of a request are stored, or none is
        acknowledged. A client that got no answer must send again. See docs/collectors.md.

        Other answers: 401 (token), 404 (path), 411 (no Content-Length), 413 (too large), 415 (compressed), 503 (the
        disk is full: `Retry-After`). There is no TLS: put a proxy that has it in front.

        - `path` (str): "/orders".
        - `port` (int).
        - `token` (text or, better, Dagster's `EnvVar`; default None): clients send `Authorization: Bearer TOKEN`.
          Required unless `host` is one of loopback.
        - `host` (str, default "127.0.0.1"): the address of the server.
        - `max_bytes` (int, default 1 MiB): the most bytes of a body.
        - `metadata` (sequence of "received_at", "address"; default none): adds fields `webhook_received_at`...
        - The other arguments: as in `from_mqtt`.

        >>> from rs_assets import StreamBuilder
        >>> orders = StreamBuilder.data_stream("docs", "hooks").from_webhook("/orders", 8080, schema="id bigint")
        >>> print(orders.to_print().build().describe())
        docs.hooks  fingerprint ...
          webhook  webhook_source  [json /orders]
          print    print_sink <- webhook
        """
        return self._begin(
            WebhookSource(
                name=name,
                path=path,
                port=port,
                token=token,
                host=host,
                max_bytes=max_bytes,
                log=log_folder(self.draft.namespace, self.draft.job, name, log),
                format=format,
                schema=schema_text(schema, step=name),
                pattern=pattern,
                time_format=time_format,
                delimiter=delimiter,
                metadata=one_or_more(metadata),
                keep=keep,
                collect=collect,
                policy=BadRecords.of(bad_records),
                max_rows_per_batch=max_rows_per_batch,
            )
        )

    def from_syslog(
        self,
        port: int,
        *,
        protocol: SyslogProtocol = "tcp",
        host: str = "127.0.0.1",
        time_zone: str = "UTC",
        max_bytes: int = 1 << 16,
        metadata: Sequence[str] = (),
        keep: timedelta = KEEP,
        collect: bool = True,
        log: str | None = None,
        bad_records: str | BadRecords = BadRecords.FAIL,
        max_rows_per_batch: int | None = 100_000,
        name: str = "syslog",
    ) -> DataStream:
        """Messages of syslog, best effort into a log on the disk and exactly once from it; unbounded.

        Typical uses: logs of hosts, routers and firewalls. Syslog has no acknowledgements: over TCP the messages that a
        collector has not read when it dies are lost, over UDP also those that come faster than they are stored. Where
        that matters let rsyslog or syslog-ng on the same host write a file, and read it with `from_file`. A collector
        is the server: `rs-assets collect NAME`, or the run itself if no other process collects. See docs/collectors.md.

        The fields are those of RFC 5424, also for messages of RFC 3164: facility and severity (int), sent_at
        (timestamp), host, app, process, message_id, structured_data (a map of maps) and message. What a message does
        not have is null; one that has neither form is a `message` with a facility and a severity.

        - `port` (int): 514 is the usual one, which needs rights.
        - `protocol` ("tcp" or "udp", default "tcp"): TCP as in RFC 6587, with lengths or a message in each line.
        - `host` (str, default "127.0.0.1"): the address of the server. There is no login and no TLS.
        - `time_zone` (str, default "UTC"): that of times without one, as in RFC 3164. Their year is the nearest one.
        - `max_bytes` (int, default 64 KiB): a TCP connection with a longer message is closed.
        - `metadata` (sequence of "received_at", "address"; default none): adds fields `syslog_received_at`...
        - `bad_records` (default "fail"): about messages that are not UTF-8.
        - The other arguments: as in `from_mqtt`.

        >>> from rs_assets import StreamBuilder
        >>> lines = StreamBuilder.data_stream("docs", "logs").from_syslog(5514)
        >>> print(lines.filter("severity <= 3").to_print().build().describe())
        docs.logs  fingerprint ...
          syslog    syslog_source  [tcp 5514]
          filter_1  filter <- syslog  [severity <= 3]
          print     print_sink <- filter_1
        """
        return self._begin(
            SyslogSource(
                name=name,
                port=port,
                protocol=protocol,
                host=host,
                time_zone=time_zone,
                max_bytes=max_bytes,
                log=log_folder(self.draft.namespace, self.draft.job, name, log),
                schema=SYSLOG_SCHEMA,
                metadata=one_or_more(metadata),
                keep=keep,
                collect=collect,
                policy=BadRecords.of(bad_records),
                max_rows_per_batch=max_rows_per_batch,
            )
        )
