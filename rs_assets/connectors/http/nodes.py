"""HTTP services as sinks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from rs_assets.common.node import positive
from rs_assets.connectors.http.endpoint import HttpEndpoint
from rs_assets.connectors.nodes import Sink
from rs_assets.errors import TopologyError

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
    rows_per_second: float | None = None
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
        (rate is None or (isinstance(rate, int | float) and not isinstance(rate, bool) and rate > 0),
         "rows_per_second must be a number above 0", "rows_per_second=100"),
        one_of("policy of refused", refused, get_args(Refused)),
    )  # fmt: skip


def check_options(step: str, checks: Sequence[Check]) -> None:
    """TopologyError for the first option that is wrong."""
    for holds, what, remedy in checks:
        if not holds:
            raise TopologyError(f"step {step!r}: {what}", remedy=remedy, step=step)
