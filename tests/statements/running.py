"""Random statements here and in DuckDB: over the same rows, in batches with a restart, they must give the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb

from rs_assets import pipeline_from_sql
from rs_assets.errors import SqlError
from rs_assets.spark.driver import SparkDriver
from rs_assets.testing import PipelineDriver
from tests.peers.cases import Kept
from tests.statements.drawing import STREAM, STREAMS, TABLE, TABLES, TYPES, Draw, Statement

START = datetime(2026, 1, 5, 10, tzinfo=UTC)
BATCHES = 3
DUCK = {"int": "BIGINT", "text": "TEXT", "real": "DOUBLE", "time": "TIMESTAMP"}
Batch = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Outcome:
    """What became of a statement: `reason` of a refusal, or what was found and wanted."""

    seed: int
    statement: Statement
    reason: str = ""
    found: Counter[Any] | None = None
    wanted: Counter[Any] | None = None

    @property
    def wrong(self) -> bool:
        return not self.reason and self.found != self.wanted


def batches(seed: int) -> list[Batch]:
    """Rows of all inputs: numbers that repeat, nulls, empty texts, times out of order, keys that come again."""
    rng = random.Random(seed)

    def row(number: int, kinds: Mapping[str, str]) -> dict[str, Any]:
        made: dict[str, Any] = {
            "id": number,
            "k": rng.choice([None, 0, 1, 2, 3]),
            "j": rng.choice([None, 0, 1, 2]),
            "t": rng.choice([None, "", "a", "b", "B", "ab", "ba"]),
            "x": rng.choice([None, *range(-4, 9)]),
            "d": rng.choice([None, 0.0, 0.25, -0.5, 2.0, 8.75]),
        }
        if "ts" in kinds:
            # Each time once: rows of one time have no order in DuckDB.
            made["ts"] = START + timedelta(seconds=61 * ((number * 7) % 45), milliseconds=number)
        return made

    found = []
    for batch in range(BATCHES):
        rows = {name: [row(batch * 15 + n, STREAM) for n in range(15)] for name in STREAMS}
        rows |= {name: [row(rng.randrange(12), TABLE) for _ in range(8)] for name in TABLES}
        found.append(rows)
    return found


def columns(kinds: Mapping[str, str], types: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {types[kind]}" for name, kind in kinds.items())


def inputs() -> str:
    """The tables of all statements; no row is late."""
    at = "WITH ('connector' = 'filesystem', 'path' = '/in/{}', 'format' = 'json', 'follow' = 'true');"
    streams = (
        f"CREATE TABLE {name} ({columns(STREAM, TYPES)}, WATERMARK FOR ts AS ts - INTERVAL '1' DAY) {at.format(name)}"
        for name in STREAMS
    )
    tables = (
        f"CREATE TABLE {name} ({columns(TABLE, TYPES)}, PRIMARY KEY (id) NOT ENFORCED) {at.format(name)}"
        for name in TABLES
    )
    return "\n".join([*streams, *tables])


def written(name: str, statement: Statement) -> str:
    """A statement that writes to the table `name`."""
    sink = (
        f"CREATE TABLE {name} ({columns(statement.columns, TYPES)}) WITH ('connector' = 'delta', 'table' = '{name}');"
    )
    views = "".join(f"{view.ours};\n" for view in statement.views)
    return f"{views}{sink}\nINSERT INTO {name} {statement.query.ours};"


def of_duckdb(statement: Statement, given: Sequence[Batch]) -> Counter[Any]:
    """Its rows over all input at once; of a table with a key the last row of each."""
    with duckdb.connect() as db:
        db.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'; SET TimeZone = 'UTC'")
        for name, kinds in (*((name, STREAM) for name in STREAMS), *((name, TABLE) for name in TABLES)):
            db.execute(f"CREATE TABLE {name} ({columns(kinds, DUCK)})")
            rows = [row for batch in given for row in batch[name]]
            kept = rows if name in STREAMS else list({row["id"]: row for row in rows}.values())
            places = ", ".join("?" * len(kinds))
            db.executemany(
                f"INSERT INTO {name} VALUES ({places})",
                [[v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in row.values()] for row in kept],
            )
        for view in statement.views:
            db.execute(view.duck)
        return Counter(tuple(map(plain, row)) for row in db.execute(statement.query.duck).fetchall())


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() if value.tzinfo else value.isoformat()
    return float(value) if isinstance(value, float) else value


def drawn(seed: int, count: int) -> Iterator[Outcome | Statement]:
    """Statements of a seed, those that are refused as an outcome."""
    draw = Draw(seed)
    for _ in range(count):
        statement = draw.statement()
        try:
            pipeline_from_sql(f"{inputs()}\n{written('o', statement)}", job="drawn")
        except SqlError as error:
            yield Outcome(seed, statement, reason=error.what)
        else:
            yield statement


def compared(seed: int, count: int, spark: SparkDriver) -> list[Outcome]:
    """Statements of a seed, all in one pipeline, against DuckDB."""
    made = list(drawn(seed, count))
    outcomes = [each for each in made if isinstance(each, Outcome)]
    taken = {f"o{n}": each for n, each in enumerate(made) if isinstance(each, Statement)}
    given = batches(seed)
    pipeline = pipeline_from_sql("\n".join([inputs(), *(written(*each) for each in taken.items())]), job="drawn")
    kept = {
        sink.name: Kept(
            tuple(getattr(sink, "keys", ())), tuple(getattr(sink, "order_by", ())), getattr(sink, "flag", None)
        )
        for sink in pipeline.topology.sinks
        if sink.name in taken
    }
    read = [source.name for source in pipeline.topology.sources]
    with PipelineDriver(pipeline, spark=spark) as running:
        for number, batch in enumerate(given):
            if number == BATCHES - 1:
                running.restart()
            for source in read:
                if source[:2] in batch:
                    running.push(batch[source[:2]], source)
            running.step()
            for name, rows in kept.items():
                rows.add(running.take(name))
        running.finish()
        for name, rows in kept.items():
            rows.add(running.take(name))
    for name, statement in taken.items():
        found = kept[name]
        there = found.by_key.values() if found.keys else found.all
        mine = Counter(tuple(plain(row[column]) for column in statement.columns) for row in there)
        outcomes.append(Outcome(seed, statement, found=mine, wanted=of_duckdb(statement, given)))
    return outcomes
