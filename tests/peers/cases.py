"""Cases that other systems publish for streaming SQL: input, a statement, and the rows that they give.

A file `NAME.yaml` has the cases of one peer and subject. Statements are written for this project; rows are the peer's.

    peer: Apache Flink
    source: where the peer publishes them
    tables:                     # inputs of the cases
      NAME:
        columns: [a INT, ...]   # also computed columns, WATERMARK and PRIMARY KEY
        rows: [[1], ...]        # in the order of the columns that are not computed
        later: [[2], ...]       # after a restart from the checkpoint (default: none)
    cases:
      - name: what it shows
        query: SELECT ...       # or `insert`, for what comes after INSERT INTO out
        views: CREATE VIEW ...; # (default: none)
        columns: [a INT, ...]   # of the output; with a PRIMARY KEY its rows are replaced by it
        cuts: [7]               # after how many rows of each table a batch ends, where late rows depend on it
        batches: [{NAME: [[1]]}, ...]  # instead of the rows of the tables, one batch after the other
        open: true              # the input does not end: only what the watermark closes is there
        rows: [[1], ...]        # at the end, in any order
        refused: text           # instead of rows: part of the refusal
        fair: why               # of a refusal: why it is one that users must expect; default: it is a gap
        here: [[3], ...]        # rows that differ from the peer's, `because` of something that docs/sql.md says
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import yaml

from rs_assets import Pipeline, pipeline_from_sql
from rs_assets.spark.driver import SparkDriver
from rs_assets.testing import PipelineDriver

FOLDER = Path(__file__).parent
Outcome = Literal["equal", "another value, as documented", "refused, as documented", "refused, a gap"]
Values = tuple[Any, ...]
OUT = "out"
_NOT_READ = re.compile(r"^(WATERMARK|PRIMARY KEY|CONSTRAINT)\b|^\S+ AS ", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Table:
    """An input with its rows before and after a restart."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]] = ()
    later: Sequence[Sequence[Any]] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def statement(self, name: str) -> str:
        """Its CREATE TABLE."""
        options = {"connector": "filesystem", "path": f"/in/{name}", "format": "json", **self.options}
        if any(column.upper().startswith("PRIMARY KEY") for column in self.columns):
            options.setdefault("follow", "true")
        return f"CREATE TABLE {name} ({', '.join(self.columns)}) WITH ({_shown(options)});"

    def records(self, rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
        """Rows as they are pushed."""
        read = [column.split(None, 1) for column in self.columns if not _NOT_READ.match(column)]
        return [
            {name.strip("`"): taken(kind, value) for (name, kind), value in zip(read, row, strict=True)} for row in rows
        ]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A statement and what a peer gives for it."""

    peer: str
    file: str
    name: str
    tables: Mapping[str, Table]
    columns: Sequence[str]
    query: str
    views: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    cuts: Sequence[int] = ()
    batches: Sequence[Mapping[str, Sequence[Sequence[Any]]]] = ()
    open: bool = False
    rows: Sequence[Sequence[Any]] = ()
    here: Sequence[Sequence[Any]] | None = None
    because: str = ""
    refused: str = ""
    fair: str = ""

    @property
    def outcome(self) -> Outcome:
        """What the table of docs/sql.md counts it as."""
        if self.refused:
            return "refused, as documented" if self.fair else "refused, a gap"
        return "equal" if self.here is None else "another value, as documented"

    @property
    def expected(self) -> Counter[Values]:
        """The rows that must come here."""
        return Counter(tuple(_plain(each) for each in row) for row in (self.rows if self.here is None else self.here))

    def pipeline(self) -> Pipeline:
        """The pipeline of the statement; raises SqlError where it is refused."""
        made = [table.statement(name) for name, table in self.tables.items()]
        if self.views:
            made.append(self.views.rstrip().rstrip(";") + ";")
        options = {"connector": "delta", "table": OUT, **self.options}
        made.append(f"CREATE TABLE {OUT} ({', '.join(self.columns)}) WITH ({_shown(options)});")
        made.append(f"INSERT INTO {OUT} {self.query}")
        return pipeline_from_sql("\n".join(made), job="peers")

    def run(self, spark: SparkDriver) -> Counter[Values]:
        """The rows at the end: of an output with a key the last of each, of one with retractions those that stay."""
        pipeline = self.pipeline()
        sink = next(each for each in pipeline.topology.sinks if each.name == OUT)
        kept = Kept(tuple(getattr(sink, "keys", ())), tuple(getattr(sink, "order_by", ())), getattr(sink, "flag", None))
        read = [source.name for source in pipeline.topology.sources]
        with PipelineDriver(pipeline, spark=spark) as running:
            for place, batches in enumerate(self._parts()):
                if place:
                    running.restart()
                for batch in batches:
                    for name, rows in batch.items():
                        for source in _readings(name, read):
                            running.push(self.tables[name].records(rows), source)
                    running.step()
                    kept.add(running.take(OUT))
            if not self.open:
                running.finish()
            kept.add(running.take(OUT))
        names = [column.split(None, 1)[0].strip("`") for column in self.columns if not _NOT_READ.match(column)]
        return kept.rows(names)

    def _parts(self) -> Iterator[Sequence[Mapping[str, Sequence[Sequence[Any]]]]]:
        """The batches of rows before a restart, and of those after it."""
        if self.batches:
            yield self.batches
            return
        tables = self.tables
        cuts = zip([0, *self.cuts], [*self.cuts, None], strict=True)
        yield [{name: table.rows[begin:end] for name, table in tables.items()} for begin, end in cuts]
        if any(table.later for table in tables.values()):
            yield [{name: table.later for name, table in tables.items()}]


def _readings(table: str, sources: Iterable[str]) -> list[str]:
    """The sources that read a table: one that is on both sides of a join is read twice."""
    return [source for source in sources if re.fullmatch(rf"{table}(_\d+)?", source)]


@dataclass
class Kept:
    """The rows of an output through all batches: by its key, if it has one, the newest by its order."""

    keys: tuple[str, ...]
    order: tuple[str, ...]
    flag: str | None
    by_key: dict[Values, Mapping[str, Any]] = field(default_factory=dict)
    all: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take the rows of a batch; one that goes comes before the one that replaces it."""
        for row in sorted(rows, key=lambda each: not self._goes(each)):
            if not self.keys:
                self.all.append(row)
                continue
            key = tuple(_plain(row[name]) for name in self.keys)
            if self.order and key in self.by_key and self._rank(self.by_key[key]) > self._rank(row):
                continue
            self.by_key.pop(key, None)
            if not self._goes(row):
                self.by_key[key] = row

    def _goes(self, row: Mapping[str, Any]) -> bool:
        return self.flag is not None and bool(row[self.flag])

    def _rank(self, row: Mapping[str, Any]) -> list[Any]:
        return [(row[name] is not None, row[name]) for name in self.order]

    def rows(self, names: Sequence[str]) -> Counter[Values]:
        """The values of `names` in the rows that are there."""
        rows = self.by_key.values() if self.keys else self.all
        return Counter(tuple(_plain(row[name]) for name in names) for row in rows)


def taken(kind: str, value: object) -> object:
    """A value of a file as rows of Python have it."""
    kind = kind.upper()
    if value is None:
        return None
    if kind.startswith("DECIMAL"):
        return Decimal(str(value))
    if kind.startswith("DATE"):
        return date.fromisoformat(str(value))
    return datetime.fromisoformat(str(value)).replace(tzinfo=UTC) if kind.startswith("TIMESTAMP") else value


def _plain(value: Any) -> Any:
    """A value as the files have it: times and decimals as text."""
    if isinstance(value, datetime):
        digits = "milliseconds" if value.microsecond else "seconds"
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", digits)
    if isinstance(value, Decimal | date):
        return str(value)
    if isinstance(value, list | tuple):
        return tuple(_plain(each) for each in value)
    if isinstance(value, Mapping):
        return tuple(sorted((_plain(name), _plain(each)) for name, each in value.items()))
    return float(f"{value:.11e}") if isinstance(value, float) else value


def _shown(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())


def cases() -> list[Case]:
    """All cases of all files."""
    return [case for path in sorted(FOLDER.glob("*.yaml")) for case in _read(path)]


def _read(path: Path) -> Iterator[Case]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    tables = {name: Table(**table) for name, table in content["tables"].items()}
    for case in content["cases"]:
        used = case.pop("tables", None) or [
            name for name in tables if re.search(rf"\b{name}\b", case["query"] + case.get("views", ""))
        ]
        yield Case(peer=content["peer"], file=path.stem, tables={name: tables[name] for name in used}, **case)


__all__ = ["Case", "Outcome", "cases"]
