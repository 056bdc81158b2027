"""The common part of sources whose messages are collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Literal, Self, get_args

from rs_assets.common.home import Home
from rs_assets.common.node import NO_EFFECT, positive
from rs_assets.common.project import anchored
from rs_assets.connectors.files.form import separates
from rs_assets.connectors.nodes import Source
from rs_assets.errors import TopologyError
from rs_assets.records.policy import BadRecords

CollectedFormat = Literal["json", "text", "csv", "raw"]
# The fields of formats that need no schema.
FIXED: Mapping[str, str] = {"text": "value string", "raw": "value binary"}
# The types of metadata; `ARROW` of messages.py has those of Arrow.
METADATA_TYPES: Mapping[str, str] = {
    "received_at": "timestamp",
    "topic": "string",
    "address": "string",
    "qos": "int",
    "retain": "boolean",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedSource(Source):
    """Messages of a system that sends each of them once: from the log of their collector. Unbounded.

    `log` is the folder of the log: below that of all logs in the home, unless it is absolute. `keep` is how long
    messages stay after they were received and read. `collect`: a run collects if no other process does.
    """

    self_contained: ClassVar[bool] = True
    # What the fields of metadata begin with, and which there are.
    prefix: ClassVar[str]
    facts: ClassVar[tuple[str, ...]]

    log: str = field(compare=False, metadata=NO_EFFECT)
    format: CollectedFormat = "json"
    pattern: str | None = None
    time_format: str | None = None
    delimiter: str = ","
    metadata: tuple[str, ...] = ()
    keep: timedelta = field(default=timedelta(days=7), metadata=NO_EFFECT)
    collect: bool = field(default=True, metadata=NO_EFFECT)
    policy: BadRecords = BadRecords.FAIL
    max_rows_per_batch: int | None = field(default=100_000, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Refuse invalid combinations of options."""
        Source.__post_init__(self)
        limit = self.max_rows_per_batch
        fixed = self.format in FIXED and self.pattern is None
        checks: Sequence[tuple[bool, str, str]] = (
            (self.format in get_args(CollectedFormat), f"{self.format!r} is not a format",
             f"use one of: {', '.join(get_args(CollectedFormat))}"),
            (self.pattern is None or self.format == "text", "a pattern needs format='text'", "leave it out"),
            (not fixed or self.schema is None, f"format {self.format!r} has the one field 'value'",
             "leave schema out"),
            (fixed or self.format == "json" or self.schema is not None,
             "a pattern and CSV need a schema", "pass schema='...'"),
            (self.format == "csv" or self.delimiter == ",", "a delimiter needs format='csv'", "leave it out"),
            (separates(self.delimiter), f"{self.delimiter!r} cannot separate values", "use one character, such as ';'"),
            (all(name in self.facts for name in self.metadata), "no such metadata",
             f"there are: {', '.join(self.facts)}"),
            (len(set(self.metadata)) == len(self.metadata), "metadata are named twice", ""),
            (isinstance(self.keep, timedelta) and self.keep >= timedelta(0), f"keep must be a time, not {self.keep!r}",
             "keep=timedelta(days=7)"),
            (limit is None or positive(limit), "a limit must be a positive number", ""),
        )  # fmt: skip
        for holds, what, remedy in checks:
            if not holds:
                raise TopologyError(f"step {self.name!r}: {what}", remedy=remedy)

    def folder(self, home: Home) -> Path:
        """The folder of the log."""
        if Path(self.log).is_absolute():
            return Path(self.log)
        return (home.tables_of or home).collected / self.log

    def apart(self) -> Self:
        """Of the log only: nothing is collected."""
        return replace(self, collect=False)

    def unlimited(self) -> Self:
        """Without the limit of rows."""
        return replace(self, max_rows_per_batch=None)

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy."""
        return self.policy

    @property
    def row_schema(self) -> str | None:
        """The schema, followed by the configured metadata."""
        fields = self.schema if self.pattern is not None else FIXED.get(self.format, self.schema)
        extra = [f"{self.prefix}_{name} {METADATA_TYPES[name]}" for name in self.metadata]
        return ", ".join([fields, *extra]) if fields else None

    def shape(self) -> tuple[str, ...]:
        """What a message is read as, for `identity`."""
        return (self.format, self.pattern or "", self.schema or "inferred", self.delimiter, *self.metadata)

    @property
    def reading(self) -> tuple[str, ...]:
        """How times are parsed."""
        return (f"times as {self.time_format}",) if self.time_format else ()


def log_folder(namespace: str, job: str, name: str, log: str | None) -> str:
    """The `log` of a source: the given path, made absolute, else that of the step.

    >>> log_folder("shop", "sensors", "mqtt", None)
    'shop/sensors/mqtt'
    """
    return f"{namespace}/{job}/{name}" if log is None else anchored(log)
