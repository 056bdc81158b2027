"""HTTP services as sinks, and as sources that are polled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Literal, get_args

from rs_assets.common.node import NO_EFFECT, positive
from rs_assets.connectors.http.endpoint import HttpEndpoint
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.errors import TopologyError
from rs_assets.records.policy import BadRecords

Method = Literal["POST", "PUT", "PATCH"]
BodyFormat = Literal["json_lines", "json_array", "json_object"]
# What happens to rows that a service never accepts.
Refused = Literal["fail", "dead_letter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSink(Sink):
    """Requests to a service, with at most `batch` rows each, in the form `format`."""

    at_once: ClassVar[bool] = True

    endpoint: HttpEndpoint
    method: Method = "POST"
    format: BodyFormat = "json_lines"
    batch: int = 500
    rows_per_second: float | None = field(default=None, metadata=NO_EFFECT)
    refused: Refused = "fail"

    def __post_init__(self) -> None:
        """Refuse invalid options."""
        Sink.__post_init__(self)
        check_options(
            self.name,
            (one_of("method", self.method, get_args(Method)),
             one_of("format", self.format, get_args(BodyFormat)),
             *of_requests(self.batch, self.rows_per_second, self.refused),
             (self.format != "json_object" or self.batch == 1, "json_object is a request for each row", "batch=1")),
        )  # fmt: skip

    def detail(self) -> str:
        """Method and address."""
        return f"{self.method} {self.endpoint.where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSource(Source):
    """Pages of rows after a cursor; unbounded. See `from_http` for `cursor`, `items`, `next` and `last`."""

    self_contained: ClassVar[bool] = True

    endpoint: HttpEndpoint
    cursor: str = "after"
    items: str = "items"
    next: str | None = None
    last: str | None = None
    first: str | int | None = field(default=None, metadata=NO_EFFECT)
    requests_per_second: float | None = field(default=None, metadata=NO_EFFECT)
    every: timedelta = field(default=timedelta(seconds=10), metadata=NO_EFFECT)
    keep: int = field(default=10, metadata=NO_EFFECT)
    policy: BadRecords = BadRecords.FAIL
    max_rows_per_batch: int = field(default=10_000, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Refuse invalid options, and a source without a schema."""
        Source.__post_init__(self)
        rate = self.requests_per_second
        check_options(
            self.name,
            ((self.schema is not None, "an HTTP service does not declare the fields of its rows",
              "schema='id bigint, text string'"),
             (isinstance(self.cursor, str) and bool(self.cursor), "the cursor must be the name of a parameter",
              "cursor='after'"),
             ((self.next is None) != (self.last is None), "one of next= and last= names the next cursor",
              "next='next' names it in the answer, last='id' in the last row"),
             (isinstance(self.every, timedelta) and self.every >= timedelta(0), "every must be a time",
              "every=timedelta(seconds=10)"),
             (positive(self.keep), "keep must be a positive number of polls", "keep=10"),
             (positive(self.max_rows_per_batch), "max_rows_per_batch must be a positive number",
              "max_rows_per_batch=10_000"),
             (rate is None or above_zero(rate), "requests_per_second must be a number above 0",
              "requests_per_second=5")),
        )  # fmt: skip

    @property
    def origin(self) -> tuple[str, ...]:
        """The address."""
        return ("http", self.endpoint.where)

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy."""
        return self.policy

    def detail(self) -> str:
        """The address and the cursor."""
        return f"{self.endpoint.where} by {self.last or self.next}"

    def identity(self) -> tuple[str, ...]:
        """The service may move; the cursor and the schema may not change."""
        return (self.cursor, self.items, self.next or "", self.last or "", self.schema or "")


# Whether an option is right, and the error and its remedy otherwise.
Check = tuple[bool, str, str]


def one_of(what: str, value: object, values: Sequence[str]) -> Check:
    """The check of an option with fixed values."""
    listed = ", ".join(values)
    return value in values, f"the {what} must be one of {listed}, not {value!r}", f"use one of: {listed}"


def of_requests(batch: object, rate: object, refused: object) -> Sequence[Check]:
    """The checks of the options that all sinks of requests have."""
    return (
        (positive(batch), "batch must be a positive number of rows", "batch=500"),
        (rate is None or above_zero(rate),
         "rows_per_second must be a number above 0", "rows_per_second=100"),
        one_of("policy of refused", refused, get_args(Refused)),
    )  # fmt: skip


def above_zero(value: object) -> bool:
    """Whether `value` is a number above 0; a bool does not count."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def check_options(step: str, checks: Sequence[Check]) -> None:
    """TopologyError for the first option that is wrong."""
    for holds, what, remedy in checks:
        if not holds:
            raise TopologyError(f"step {step!r}: {what}", remedy=remedy, step=step)
