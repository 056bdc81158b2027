"""Outputs in Delta tables, dead letters, and what the catalog notes of quarantined records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from rs_assets.common.plural import count_of
from rs_assets.connectors.dead_letters import stored_letters
from rs_assets.connectors.delta.forgetting import Found, TableErasure
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.delta.rows import dataset_of
from rs_assets.connectors.delta.table import open_table
from rs_assets.errors import ConfigurationError
from rs_assets.runtime.forget.keys import InColumns, InTexts, Keys
from rs_assets.runtime.forget.report import Finding, Place
from rs_assets.runtime.forget.world import World

DEAD_LETTERS = "dead_letters"
BROKEN = "a write has not finished: it goes once nothing was written into it for an hour"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows:
    """The rows of a table in Delta, which are called `what`."""

    place: str
    name: str
    erasure: TableErasure
    what: str = "row"

    def check(self) -> None:
        """SinkError for a table that cannot be changed."""
        self.erasure.check()

    def found(self) -> Finding:
        """Rows, rows in earlier files, and entries of the log."""
        return in_words(self.erasure.found(), self.what)

    def erase(self) -> None:
        """Remove them."""
        self.erasure.erase()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTable(TableRows):
    """The rows of an output."""

    path: str
    wanted: InColumns
    place: str = "output"

    def check(self) -> None:
        """ConfigurationError for values that its columns cannot have, SinkError for a table that cannot be changed."""
        table = open_table(self.path)
        if table is None:
            return
        schema = dataset_of(table, self.path).schema
        self.wanted.matches(schema.empty_table())
        TableRows.check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRows(TableRows):
    """The dead letters of the pipeline: of JSON by its fields, of other texts by the value as a word."""

    world: World
    place: str = "dead letters"
    name: str = ""
    what: str = "dead letter"

    def found(self) -> Finding:
        """Dead letters; how many of them are not JSON is said."""
        found = self.erasure.found()
        plain = self._by_text() if found.rows else 0
        return in_words(found, self.what, f", {plain:,} of them by their text alone" * bool(plain))

    def _by_text(self) -> int:
        topology, home = self.world.topology, self.world.options.home
        letters = stored_letters(home.dead_letters, topology.namespace, topology.job, pc.scalar(True))  # noqa: FBT003
        records = letters["record"].to_pylist()
        return sum(self.world.keys.in_record(text) == "text" for text in records if text is not None)


def outputs(world: World) -> Iterator[Place]:
    """The outputs in Delta tables that have one of the columns; ConfigurationError for a column that none has."""
    for sink in world.topology.sinks:
        if not isinstance(sink, DeltaSink):
            continue
        path = world.options.home.table(world.topology.namespace, sink.table)
        query, table = world.query_of(sink.name), open_table(path)
        if query is None or table is None:
            continue
        wanted = InColumns(world.keys.at(sink.name, sink.table), world.keys)
        schema = dataset_of(table, path).schema
        _check_named(world, sink, schema)
        if wanted.columns(schema):
            erasure = TableErasure(
                path=path,
                matcher=wanted,
                step=sink.name,
                mark=world.mark(sink.name, query),
                pipeline=world.topology.name,
            )
            yield OutputTable(name=sink.name, path=path, wanted=wanted, erasure=erasure)


def _check_named(world: World, sink: DeltaSink, schema: pa.Schema) -> None:
    for (place, column), of in world.keys.columns.items():
        if place in (sink.name, sink.table) and not InColumns({column: ()}, world.keys).columns(schema):
            raise ConfigurationError(
                f"the output {place!r} has no column {column!r} for {of!r}",
                remedy=f"name one of: {', '.join(schema.names)}",
                pipeline=world.topology.name,
            )


def dead_letters(world: World) -> DeadLetterRows:
    """Those of the pipeline."""
    topology = world.topology
    own = {"namespace": topology.namespace, "job": topology.job}
    matcher = InTexts(own, ("record", "reason"), world.keys, partial(_in_letter, world.keys))
    erasure = TableErasure(
        path=world.options.home.dead_letters, matcher=matcher, step=DEAD_LETTERS, pipeline=topology.name
    )
    return DeadLetterRows(world=world, erasure=erasure)


def quarantine_notes(world: World) -> TableRows:
    """The reasons of quarantined records in the catalog's operations: texts of errors, which may have a key."""
    own = {"pipeline": world.topology.name, "kind": "quarantine"}
    matcher = InTexts(own, ("details",), world.keys, partial(_in_details, world.keys))
    path = str(world.options.home.catalog / "operations")
    erasure = TableErasure(path=path, matcher=matcher, step="operations", pipeline=world.topology.name)
    return TableRows(place="catalog", name="operations", what="operation", erasure=erasure)


def in_words(found: Found, what: str, more: str = "") -> Finding:
    """What was found in a table."""
    parts = [
        f"{count_of(found.rows, what)}{more}",
        f"{count_of(found.earlier, 'row')} in files of earlier versions" * bool(found.earlier),
        f"{count_of(found.entries, 'entry')} of the log with a value" * bool(found.entries),
        f"{count_of(found.broken, 'file')} that {BROKEN}" * bool(found.broken),
    ]
    said = ", ".join(filter(None, parts)) if found.anything else ""
    return Finding(rows=found.rows, more=found.earlier + found.entries + found.broken, said=said, version=found.version)


def _in_letter(keys: Keys, texts: Sequence[str | None]) -> bool:
    record, reason = texts
    how = keys.in_record(record) if record is not None else ""
    return bool(how) or (record is None and reason is not None and keys.in_text(reason))


def _in_details(keys: Keys, texts: Sequence[str | None]) -> bool:
    said = orjson.loads(texts[0] or "{}")
    return any(keys.in_text(str(each.get("reason", ""))) for each in said.get("records", ()))
