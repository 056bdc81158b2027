"""The base classes of sources and sinks: nodes of a pipeline that read or write a system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from rs_assets.common.node import Family, Node
from rs_assets.records.policy import BadRecords
from rs_assets.records.schema import schema_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Node):
    """A node without inputs. `schema` is DDL text; None means: inferred once, then pinned with the checkpoint."""

    family: ClassVar[Family] = "source"
    # Whether Spark's real-time mode can read it.
    real_time: ClassVar[bool] = False
    # Whether recorded batches say where their records are, or the home has them: the place of the node is not read.
    self_contained: ClassVar[bool] = False

    schema: str | None = None

    def __post_init__(self) -> None:
        """Convert the schema to DDL text."""
        Node.__post_init__(self)
        object.__setattr__(self, "schema", schema_text(self.schema, step=self.name))

    @property
    def bounded(self) -> bool:
        """Whether the input has an end, at which all windows fire and the generation is sealed."""
        return False

    @property
    def bad_records(self) -> BadRecords:
        """The policy for records that do not parse."""
        return BadRecords.FAIL

    @property
    def row_schema(self) -> str | None:
        """The fields of its rows as DDL text, None if they are inferred at the first start."""
        return self.schema

    @property
    def origin(self) -> tuple[str, ...]:
        """The input, whatever the step is called; () if it cannot be distinguished from others of its kind."""
        return ()

    @property
    def reserves(self) -> str:
        """What a start leaves at the system until it is removed, such as a replication slot; "" for nothing."""
        return ""

    def apart(self) -> Self:
        """The same rows for a read of its own, which leaves neither offsets nor dead letters at the system."""
        return self

    def in_a_run(self, *, rows: int | None, files: int | None, policy: BadRecords | None) -> Self:
        """The same source with settings of a run instead of its own, as far as it has such ones; None: its own.

        `rows` and `files` are limits of a batch, `policy` that for records that do not parse.
        """
        asked: Mapping[str, Any] = {"max_rows_per_batch": rows, "max_files_per_batch": files, "policy": policy}
        known = {each.name for each in fields(self)}
        changed = {name: value for name, value in asked.items() if value is not None and name in known}
        return replace(self, **changed) if changed else self

    def unlimited(self) -> Self:
        """The same source without batch limits, which real-time mode does not support."""
        return self

    @property
    def in_parser(self) -> bool:
        """Whether Spark's own reader parses its files, so that their lines are checked separately."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink(Node):
    """A node whose rows leave the pipeline."""

    family: ClassVar[Family] = "sink"

    @property
    def read_order(self) -> bool:
        """Whether the result depends on the positions at which rows were read."""
        return False

    @property
    def flag(self) -> str | None:
        """The boolean column of the rows that delete the row of their keys; None if none does."""
        return None

    def identity(self) -> tuple[str, ...]:
        """No state depends on where rows go."""
        return ()
