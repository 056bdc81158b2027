"""Sources and sinks of users: any object that reads or writes rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from rs_assets.connectors.nodes import Sink, Source
from rs_assets.errors import TopologyError
from rs_assets.records.policy import BadRecords

if TYPE_CHECKING:
    from rs_assets.connectors.sink import SinkWriter
    from rs_assets.connectors.source import SourceReader

# What the runtime calls of a source that makes no reader by itself.
READER = ("name", "stream", "batch", "splits", "check")
# The methods of a user-defined sink, and those with which it can go back to an earlier batch.
WRITER = ("name", "committed", "last_committed", "stage", "location")
REWINDING = ("check_rewind", "rewind")


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomSource(Source):
    """A user-defined source: an object with `reader(name)`, or with the methods of `rs_assets.sources.SourceReader`.

    `schema` is that of `from_source`, else the attribute of the object. `place` is what its `location()` returns; a
    source without a location differs from all that have another name.
    """

    source: Any = field(repr=False, compare=False)
    policy: BadRecords = BadRecords.FAIL
    place: str = ""

    def __post_init__(self) -> None:
        """Refuse an object that lacks a method, has another name, or declares no fields where it must."""
        if self.schema is None:
            object.__setattr__(self, "schema", getattr(self.source, "schema", None) or None)
        Source.__post_init__(self)
        self._check_methods()
        object.__setattr__(self, "place", self.place or self.located() or f"{self.detail()} {self.name}")

    def _check_methods(self) -> None:
        if isinstance(self.source, type):
            raise TopologyError(
                f"step {self.name!r}: the source is the class {self.source.__name__}, not an object of it",
                remedy=f"pass {self.source.__name__}(...)",
                step=self.name,
            )
        if self.makes_reader:
            if self.schema is None:
                # Only pipelines with such a source have loaded the module.
                from rs_assets.connectors.own.reader import no_schema

                raise no_schema(self.name)
            return
        lacking = [part for part in READER if not hasattr(self.source, part)]
        if lacking:
            raise TopologyError(
                f"step {self.name!r}: the source has no {', '.join(lacking)}",
                remedy="derive its class from rs_assets.sources.LogSource or PollingSource, or write it as"
                " rs_assets.sources.SourceReader describes",
                step=self.name,
            )
        if self.source.name != self.name:
            raise TopologyError(
                f"step {self.name!r}: the source has the name {self.source.name!r}",
                remedy="leave name= out, or let the source have that name",
                step=self.name,
            )

    @property
    def makes_reader(self) -> bool:
        """Whether the object makes its readers, by `reader(name)`."""
        return callable(getattr(self.source, "reader", None))

    def reader(self) -> SourceReader:
        """The reader of the step: a new one each time, or the object itself."""
        made: SourceReader = self.source.reader(self.name) if self.makes_reader else self.source
        return made

    @property
    def bounded(self) -> bool:
        """What the object says; a source without the attribute does not end."""
        return bool(getattr(self.source, "bounded", False))

    @property
    def origin(self) -> tuple[str, ...]:
        """The location."""
        return ("custom", self.located()) if self.located() else ()

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy."""
        return self.policy

    def detail(self) -> str:
        """The class of the object."""
        return type(self.source).__name__

    def identity(self) -> tuple[str, ...]:
        """The location may move; the class and the schema may not change."""
        return (self.detail(), self.schema or "inferred")

    def located(self) -> str:
        """What `location()` of the source says, "" without such a method."""
        location = getattr(self.source, "location", None)
        return str(location() or "") if callable(location) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSink(Sink):
    """A user-defined sink: any object with the methods of `rs_assets.sinks.SinkWriter`."""

    at_once: ClassVar[bool] = True

    writer: SinkWriter = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse an object that lacks a method of the protocol, or has only one half of `Rewinding`."""
        Sink.__post_init__(self)
        lacking = [part for part in WRITER if not hasattr(self.writer, part)]
        halves = [method for method in REWINDING if hasattr(self.writer, method)]
        if halves and len(halves) < len(REWINDING):
            lacking += [method for method in REWINDING if method not in halves]
        if lacking:
            raise TopologyError(
                f"step {self.name!r}: the sink has no {', '.join(lacking)}",
                remedy="write it as rs_assets.sinks.SinkWriter (and Rewinding) describe",
                step=self.name,
            )

    def detail(self) -> str:
        """The class of the writer."""
        return type(self.writer).__name__
