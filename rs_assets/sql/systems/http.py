"""HTTP services as tables of SQL."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from rs_assets.connectors.http.endpoint import PATIENCE, TIMEOUT, HttpEndpoint
from rs_assets.errors import ConfigurationError
from rs_assets.sql.systems.form import SqlSink, SqlSource
from rs_assets.sql.systems.secrets import secret_of, taken_secret

if TYPE_CHECKING:
    from rs_assets.sql.read.options import Options
    from rs_assets.sql.systems.sink_table import SinkTable
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

FORMATS: Final = {"json-lines": "json_lines", "json-array": "json_array", "json-object": "json_object"}
METHODS: Final = {"POST": "POST", "PUT": "PUT", "PATCH": "PATCH"}
REFUSED: Final = {"fail": "fail", "dead_letter": "dead_letter"}
HEADER: Final = "header."
NUMBER: Final = re.compile(r"\d{1,9}(\.\d{1,6})?")


def endpoint_of(options: Options, example: str, *, key: str = "url") -> HttpEndpoint:
    """The endpoint that a table names, with its login; a value that begins with $ is an environment variable's."""
    at = options.found[key][1].start if key in options.found else None
    url = options.need(key, example)
    names = [name for name in options.found if name.startswith(HEADER)]
    try:
        return HttpEndpoint(
            url=secret_of(url),
            headers={name.removeprefix(HEADER): taken_secret(options, name) or "" for name in names},
            username=options.take("username"),
            password=taken_secret(options, "password"),
            token=taken_secret(options, "token"),
            timeout=_seconds(options, "request.timeout", TIMEOUT),
            patience=_seconds(options, "request.patience", PATIENCE),
        )
    except ConfigurationError as error:
        raise options.error(error.what, at=at, remedy=error.remedy or "") from error


def rate_of(options: Options, key: str = "sink.rows-per-second") -> float | None:
    """An option that is a number above 0."""
    at = options.found.get(key)
    text = options.take(key)
    if text is None:
        return None
    if not NUMBER.fullmatch(text) or not float(text):
        raise options.error(f"{key!r} must be a number above 0", at=at[1].start if at else None)
    return float(text)


def _seconds(options: Options, key: str, default: timedelta) -> timedelta:
    seconds = options.number(key)
    return default if seconds is None else timedelta(seconds=seconds)


def _write(table: SinkTable) -> DataStream:
    options = table.options
    form: Any = options.choice("format", FORMATS, "json-lines")
    return table.stream.to_http(
        endpoint_of(options, "https://host/path"),
        method=options.choice("method", METHODS, "POST"),
        format=form,
        batch=options.number("sink.request.rows"),
        rows_per_second=rate_of(options),
        refused=options.choice("refused", REFUSED, "fail"),
        name=table.name,
    )


def _read(table: SourceTable) -> DataStream | Table:
    options = table.options
    every = options.number("scan.poll.interval")
    stream = table.begin.from_http(
        endpoint_of(options, "https://host/rows"),
        schema=table.schema,
        cursor=options.take("cursor") or "after",
        items=options.take("items", "items") or "",
        next=options.take("next"),
        last=options.take("last"),
        first=options.take("scan.startup.cursor"),
        requests_per_second=rate_of(options, "requests-per-second"),
        every=timedelta(seconds=10 if every is None else every),
        bad_records=table.bad_records,
        max_rows_per_batch=options.number("max-rows-per-batch") or 10_000,
        name=table.name,
    )
    return table.rows(stream)


SOURCE: Final = SqlSource(read=_read)
SINK: Final = SqlSink(write=_write)
