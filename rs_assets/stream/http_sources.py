"""HTTP services as sources; part of the entry to the fluent API."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from rs_assets.common.secrets import Deferred, Secret
from rs_assets.connectors.http.endpoint import HttpEndpoint
from rs_assets.connectors.http.nodes import HttpSource
from rs_assets.connectors.nodes import Source
from rs_assets.records.policy import BadRecords
from rs_assets.records.schema import Schema, schema_text

if TYPE_CHECKING:
    from rs_assets.stream.data_stream import DataStream


class HttpSources:
    """The sources of HTTP services; part of `DataStreamSource`."""

    __slots__ = ()

    @abstractmethod
    def _begin(self, source: Source) -> DataStream:
        """A stream of the source."""

    def from_http(
        self,
        url: str | Deferred | HttpEndpoint,
        *,
        schema: Schema,
        cursor: str = "after",
        items: str = "items",
        next: str | None = None,  # noqa: A002  the word of such services
        last: str | None = None,
        first: str | int | None = None,
        headers: Mapping[str, Secret] | None = None,
        timeout: timedelta | None = None,
        requests_per_second: float | None = None,
        every: timedelta = timedelta(seconds=10),
        keep: int = 10,
        bad_records: str | BadRecords = BadRecords.FAIL,
        max_rows_per_batch: int = 10_000,
        name: str = "http",
    ) -> DataStream:
        """Rows of an HTTP service by a cursor, exactly once if the service only appends after it; unbounded.

        Typical uses: events and audit logs of services, exports by page. Rows are written to disk with the cursor that
        follows them before they are read, so a batch that is repeated has the same rows, whatever the service returns
        by then. A row that appears before a cursor that was passed is not seen. See docs/http.md.

        - `url` ("https://host/rows?limit=1000", Dagster's `EnvVar`, or an `HttpEndpoint` with its login): it answers by
          a page of rows as JSON.
        - `schema` (DDL text, StructType, or a class of records): the fields of a row.
        - `cursor` (str, default "after"): the parameter that asks for the rows after a cursor. A cursor that is an
          address or a path is asked for itself.
        - `items` (str, default "items"): where the list of rows is in an answer, by names with dots; "" if the answer
          itself is the list.
        - `next` (str) or `last` (str): where the next cursor is, in the answer ("paging.next") or in the last row
          ("id"). A page that has rows and no further cursor ends the run: its rows would be read again.
        - `first` (str or int, default None: the service's first page): the cursor to begin with.
        - `headers`, `timeout`: as for `to_http`.
        - `requests_per_second` (float, default: no limit).
        - `every` (timedelta, default 10 s): the pause after a poll without rows.
        - `keep` (int, polls, default 10): how many stay on disk after they were read; so far a pipeline can go back.
        - `bad_records` (default "fail"): for rows that do not fit the schema.
        - `max_rows_per_batch` (int, default 10,000): a poll asks for pages until it has so many rows.
        - `name` (str, default "http").

        A service that is away or busy is asked again as by `to_http`; SourceReadError ends the run after that.

        >>> from rs_assets import StreamBuilder
        >>> shop = StreamBuilder.data_stream("shop", "tickets")
        >>> tickets = shop.from_http("https://example.org/tickets", schema="id bigint, text string", last="id")
        >>> print(tickets.to_print().build().describe())
        shop.tickets  fingerprint ...
          http   http_source  [https://example.org/tickets by id]
          print  print_sink <- http
        """
        return self._begin(
            HttpSource(
                name=name,
                endpoint=HttpEndpoint.of(url, headers, timeout),
                schema=schema_text(schema, step=name),
                cursor=cursor,
                items=items,
                next=next,
                last=last,
                first=first,
                requests_per_second=requests_per_second,
                every=every,
                keep=keep,
                policy=BadRecords.of(bad_records),
                max_rows_per_batch=max_rows_per_batch,
            )
        )
