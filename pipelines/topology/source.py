"""Sources: where rows come from, which splits they have and what is done with records that do not parse."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from pipelines.topology.base import Family, Node, positive
from resources.errors import SchemaError, TopologyError
from resources.source.policy import BadRecords

if TYPE_CHECKING:
    from resources.source.memory import MemoryChannel

Format = Literal["json", "text", "csv"]


def checked_schema(schema: object, *, step: str) -> str | None:
    """`schema` as DDL text or None; SchemaError for anything else. Whether it parses, Spark says at the start."""
    if schema is None or (isinstance(schema, str) and schema.strip()):
        return schema
    raise SchemaError(
        f"the schema of step {step!r} must be DDL text such as 'page string, ms bigint', not {schema!r}", step=step
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Node):
    """A node without inputs. `schema` is DDL text; None means: inferred once, then pinned with the checkpoint."""

    family: ClassVar[Family] = "source"

    schema: str | None = None

    def __post_init__(self) -> None:
        """Check the schema's form."""
        Node.__post_init__(self)
        checked_schema(self.schema, step=self.name)

    @property
    def bounded(self) -> bool:
        """Whether the input has an end at which all windows fire and the generation is sealed."""
        return False

    @property
    def bad_records(self) -> BadRecords:
        """The policy for records that do not parse."""
        return BadRecords.FAIL

    @property
    def pushes_down(self) -> bool:
        """Whether Spark's own reader may skip rows inside its parser, so that nobody behind it can count them."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySource(Source):
    """Rows given in the program; bounded."""

    rows: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Refuse rows that are not mappings."""
        Source.__post_init__(self)
        wrong = [row for row in self.rows if not isinstance(row, Mapping)]
        if wrong:
            raise SchemaError(f"step {self.name!r}: a row must be a dict, not {wrong[0]!r}", step=self.name)
        if not self.rows and self.schema is None:
            raise SchemaError(f"step {self.name!r} has no rows to infer a schema from", remedy="pass schema='...'")

    @property
    def bounded(self) -> bool:
        """An array always ends."""
        return True

    def detail(self) -> str:
        """How many rows there are."""
        return f"{len(self.rows)} rows"

    def identity(self) -> tuple[str, ...]:
        """The rows may change from run to run; the state depends on the schema."""
        return (self.schema or "inferred",)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySource(Source):
    """Rows that the program puts into a channel while the pipeline runs; bounded once the channel is closed."""

    channel: MemoryChannel = field(repr=False, compare=False)

    @property
    def bounded(self) -> bool:
        """A closed channel ends."""
        return self.channel.closed

    def detail(self) -> str:
        """The name of its only split."""
        return "memory channel"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource(Source):
    """Rows from files: a single file (bounded unless `tail`), a directory or a glob (unbounded).

    `tail=False` reads files that no longer change, with Spark's own reader; `tail=True` follows growing files line by
    line. `pattern` (text only) is a regular expression with named groups: one field a group, cast to `schema`.
    """

    path: str
    format: Format = "json"
    tail: bool = False
    header: bool = True
    pattern: str | None = None
    time_format: str | None = None
    policy: BadRecords = BadRecords.FAIL
    max_files_per_batch: int | None = None
    max_rows_per_batch: int | None = None

    def __post_init__(self) -> None:
        """Refuse options that do not go together."""
        Source.__post_init__(self)
        checks: Sequence[tuple[bool, str, str]] = (
            (isinstance(self.path, str) and bool(self.path) and "\0" not in self.path, "the path must be text", ""),
            (self.format in get_args(Format), f"{self.format!r} is no format", "use 'json', 'text' or 'csv'"),
            (self.pattern is None or self.format == "text", "a pattern needs format='text'", ""),
            (self.pattern is None or self.schema is not None, "a pattern needs a schema", "pass schema='...'"),
            (self.format != "text" or self.pattern is not None or self.schema is None,
             "plain text has the one field 'value'", "leave schema out, or pass pattern="),
            (all(positive(n) for n in (self.max_files_per_batch, self.max_rows_per_batch) if n is not None),
             "the limit of a batch must be a positive number", ""),
            (self.max_rows_per_batch is None or self.tail, "max_rows_per_batch needs tail=True",
             "whole files are read without tail: use max_files_per_batch"),
            (self.max_files_per_batch is None or not self.tail, "max_files_per_batch does not go with tail=True",
             "use max_rows_per_batch"),
        )  # fmt: skip
        for holds, what, remedy in checks:
            if not holds:
                raise TopologyError(f"step {self.name!r}: {what}", remedy=remedy)

    @property
    def bounded(self) -> bool:
        """One file that is not followed ends; a directory, a glob and a growing file do not."""
        place = Path(self.path)
        return not self.tail and (place.is_file() or not (glob.has_magic(self.path) or place.is_dir()))

    @property
    def bad_records(self) -> BadRecords:
        """The policy that was asked for."""
        return self.policy

    @property
    def pushes_down(self) -> bool:
        """Whole files under FAIL: a filter behind the source runs inside the parser, lines are counted beside it."""
        return not self.tail and self.policy is BadRecords.FAIL

    def detail(self) -> str:
        """Format and path."""
        return f"{self.format}{', tail' if self.tail else ''} {self.path}"

    def identity(self) -> tuple[str, ...]:
        """The path may move; what the rows look like may not."""
        return (self.format, str(self.tail), self.pattern or "", self.schema or "inferred")
