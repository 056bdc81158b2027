"""The statements of a file, before they are planned."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from rs_assets.records.types import Type

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Word:
    """A name or a value, with its offset."""

    text: str
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table: declared with a type, computed by an expression, or read from record metadata."""

    name: Word
    type: Type | None = None
    computed: exp.Expression | None = None
    metadata: Word | None = None
    # METADATA that is only read.
    virtual: bool = False
    # NOT NULL, where it is declared.
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """WATERMARK FOR column AS expression."""

    column: Word
    expression: exp.Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """CONSTRAINT name EXPECT (condition) [ON VIOLATION ...]; `on_fail` is what happens to other rows."""

    name: Word
    condition: exp.Expression
    on_fail: str = "warn"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """CREATE TABLE; its use decides whether it is a source, a sink or a dimension."""

    name: Word
    columns: tuple[Column, ...]
    key: tuple[Word, ...] = ()
    watermark: Watermark | None = None
    partitioned_by: tuple[Word, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    options: Mapping[str, tuple[Word, Word]] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def declared(self) -> tuple[Column, ...]:
        """The columns that records of the source have."""
        return tuple(column for column in self.columns if column.computed is None and column.metadata is None)

    @property
    def kinds(self) -> dict[str, str]:
        """The Spark types of these columns by name."""
        return {column.name.text: column.type.text for column in self.declared if column.type is not None}

    def written(self, metadata: Container[str]) -> tuple[Column, ...]:
        """The columns that rows of the sink have: those of its records, and `metadata` that is not VIRTUAL."""
        return tuple(
            column
            for column in self.columns
            if column.computed is None
            and (column.metadata is None or (column.metadata.text in metadata and not column.virtual))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView:
    """CREATE VIEW name [(columns)] AS query."""

    name: Word
    columns: tuple[Word, ...]
    tree: exp.Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """A query without INSERT; only sessions accept it."""

    tree: exp.Expression
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateFunction:
    """CREATE FUNCTION name AS 'function' [LANGUAGE language] [USING JAR 'path', JAR 'path' ...]."""

    name: Word
    target: Word
    language: Word | None = None
    jars: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Emit:
    """EMIT WITH DELAY or WITHOUT DELAY; `side` is BEFORE, AFTER or both sides of the WATERMARK."""

    side: str
    delay: exp.Expression | None
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """INSERT INTO table [(columns)] query [EMIT ...]."""

    table: Word
    columns: tuple[Word, ...]
    tree: exp.Expression
    emit: tuple[Emit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOption:
    """SET 'key' = 'value'."""

    key: Word
    value: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkClause:
    """FROM table WATERMARK column DELAY OF interval, as Spark writes it: a watermark declared in a query."""

    table: Word
    watermark: Watermark


Statement = CreateTable | CreateView | CreateFunction | Insert | WatermarkClause | Select | SetOption
