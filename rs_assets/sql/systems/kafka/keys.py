"""Columns of a table of SQL that are in the keys of Kafka records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rs_assets.connectors.kafka.nodes import KeyFormat
from rs_assets.records.schema import ddl_of, quoted

if TYPE_CHECKING:
    from rs_assets.sql.read.options import Options
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream

# The formats of a key in from_kafka and to_kafka, by their names in SQL.
KEY_FORMATS: Final[Mapping[str, KeyFormat]] = {"raw": "text", "json": "json"}


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns that are in the keys of records, each with its field there, and the format of keys.

    `alone`: values do not have them. Otherwise the value of a record comes first; a tombstone has its key alone.
    """

    fields: Mapping[str, str]
    form: KeyFormat = "text"
    alone: bool = False

    def schema(self, table: SourceTable) -> str | None:
        """The fields of keys, None without any."""
        kinds = table.options.table.kinds
        return ddl_of({field: kinds[name] for name, field in self.fields.items()}) or None

    def value_schema(self, table: SourceTable) -> str:
        """The fields of values."""
        if not self.alone:
            return table.schema
        kept = {name: kind for name, kind in table.options.table.kinds.items() if name not in self.fields}
        return ddl_of(kept) or table.schema

    def rows(self, table: SourceTable, stream: DataStream, more: Sequence[str]) -> DataStream:
        """The rows with all columns and metadata, and `more` metadata, in place of the fields of keys."""
        if not self.fields:
            return stream
        columns = [self._column(name) for name in table.options.table.kinds]
        metadata = [quoted(f"kafka_{name}") for name in (*table.metadata, *more)]
        return stream.map(*columns, *metadata, name=f"{table.name}_row")

    def _column(self, name: str) -> str:
        if name not in self.fields:
            return quoted(name)
        key = quoted(f"kafka_key_{self.fields[name]}")
        return f"{key if self.alone else f'coalesce({quoted(name)}, {key})'} AS {quoted(name)}"


def named_keys(options: Options) -> tuple[str, ...]:
    """The columns that 'key.fields' names."""
    at, named = options.found.get("key.fields"), options.take("key.fields")
    names = tuple(filter(None, (named or "").split(";")))
    known = [column.name.text for column in options.table.declared]
    unknown = next((name for name in names if name not in known), None)
    if at is not None and unknown is not None:
        raise options.error(
            f"'key.fields' names {unknown!r}, which is not a column", at=at[1].start, remedy=f"use {', '.join(known)}"
        )
    return names


def key_columns(table: SourceTable, names: tuple[str, ...]) -> KeyColumns:
    """The columns `names` as fields of keys."""
    options = table.options
    if not names:
        return KeyColumns({})
    alone = bool(options.choice("value.fields-include", {"ALL": False, "EXCEPT_KEY": True}, "ALL"))
    prefix = _prefix(options, names, alone=alone)
    fields = {name: name.removeprefix(prefix) for name in names}
    return KeyColumns(fields, KEY_FORMATS[key_format(options, names)], alone)


def _prefix(options: Options, names: Sequence[str], *, alone: bool) -> str:
    """What the columns of a key have before the name of their field there."""
    given, prefix = options.found.get("key.fields-prefix"), options.take("key.fields-prefix") or ""
    bare = next((name for name in names if not name.removeprefix(prefix) or not name.startswith(prefix)), None)
    if given is not None and bare is not None:
        what, remedy = f"the column {bare!r} must begin with {prefix!r} and go on", f"name it {prefix}{bare}"
        raise options.error(f"'key.fields-prefix': {what}", at=given[1].start, remedy=remedy)
    if prefix and not alone:
        what, remedy = "the columns of values have no prefix", "'value.fields-include' = 'EXCEPT_KEY'"
        raise options.error(f"'key.fields-prefix': {what}", at=given[1].start if given else None, remedy=remedy)
    return prefix


def key_format(options: Options, keys: Sequence[str]) -> str:
    """How the columns of a key are in the key of a record: "raw" is the text of one column."""
    given = options.found.get("key.format")
    form = str(options.choice("key.format", {name: name for name in KEY_FORMATS}, "raw" if len(keys) == 1 else "json"))
    if form == "raw" and len(keys) != 1:
        raise options.error(
            "'key.format' = 'raw' is the text of one column", at=given[1].start if given else None,
            remedy="'key.format' = 'json'",
        )  # fmt: skip
    return form
