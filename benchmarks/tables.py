"""Tables: updates of many keys, groups and joins over them, and a small batch on a large state.

The other table of a join has a row for each group of users on average, and a 10th as many updates.

The changes go to a sink that takes none of them, so the figures are those of the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.data import SCHEMA, generate
from benchmarks.keys import SMALL_ROWS, batches_of, costs, scaled, write_small
from benchmarks.measure import MICROSECONDS, Figure
from rs_assets import Pipeline, StreamBuilder
from rs_assets.stream.table import Table

NAME = "tables"
KEYS, USERS_OF_A_GROUP = 200_000, 10
# Updates of a second, and the milliseconds of a small batch.
LEAST_UPDATES, LEAST_GROUPED, MOST_SMALL_MS = 100_000, 60_000, 400


def table_figures(bench: Bench) -> Iterator[Figure]:
    """See the module."""
    keys = scaled(KEYS, bench.rows)
    source = bench.folder / f"tables-{keys}"
    if not source.exists():
        generate(source, rows=bench.rows, users=keys)
    yield _rate(bench, "to_table", keys, source, LEAST_UPDATES)
    yield _rate(bench, "to_table, group_by: count and sum", keys, source, LEAST_GROUPED)
    yield _rate(bench, "to_table, group_by: max, which keeps rows", keys, source, None)
    yield _rate(bench, "group_by of the stream", keys, source, None)
    yield _rate(bench, "to_table, join by a foreign key", keys, source, None)
    yield _rate(bench, "to_table, join by any fields", keys, source, None)
    yield _small(bench, keys)


def _tables(name: str, source: Path, keys: int, files: int | None = None) -> Pipeline:
    bench = StreamBuilder.data_stream("bench", "tables")
    views = bench.from_file(str(source), schema=SCHEMA, max_files_per_batch=files)
    if name.startswith("group_by"):
        return _ended(views.group_by("user").count("n").sum("ms", "total").filter("n < 0"))
    part = f"pmod(hash(user), {keys // USERS_OF_A_GROUP})"
    table = views.to_table("user", order_by="ts")
    if "join" in name:
        some = bench.from_file(str(source), schema=SCHEMA, max_files_per_batch=files, name="again")
        some = some.filter(f"pmod(hash(user, 1), {USERS_OF_A_GROUP}) = 0").with_fields(part=part)
        others = some.to_table("user" if "any" in name else "part", order_by="ts", name="others")
        return _ended(table.with_fields(part=part).join(others, on="part", prefix="other_").filter("ms < 0"))
    if "group_by" not in name:
        return _ended(table.filter("ms < 0"))
    group = table.with_fields(part=part).group_by("part")
    made = group.max("ms", "most") if "max" in name else group.sum("ms", "total").count("most")
    return _ended(made.filter("most < 0"))


def _ended(table: Table) -> Pipeline:
    return table.to_stream().to_delta("changes").build()


def _rate(bench: Bench, name: str, keys: int, source: Path, least: int | None) -> Figure:
    bench.say(f"{NAME}: {keys:,}, {name}")
    seconds, cpu = costs(bench, lambda: _tables(name, source, keys))
    return Figure(
        benchmark=NAME, what=f"{keys:,} keys: {name}, an update", value=seconds / bench.rows * MICROSECONDS,
        unit="µs", target=MICROSECONDS / least if least is not None else None,
        note=f"{bench.rows / seconds:,.0f} updates/s; processor time {cpu:.1f} µs",
    )  # fmt: skip


def _small(bench: Bench, keys: int) -> Figure:
    """Batches of few updates on a table of many keys."""
    bench.say(f"{NAME}: a small batch")
    with bench.place() as folder:
        write_small(folder, keys=keys)
        batches = batches_of(bench, _tables("to_table, group_by", folder, keys, files=1))
    return Figure(
        benchmark=NAME, what=f"a batch of {SMALL_ROWS} updates beside {batches.state_rows:,} rows of state",
        value=batches.small_ms, unit="ms", target=MOST_SMALL_MS,
        note=f"processor time {batches.small_cpu_ms:.0f} ms",
    )  # fmt: skip
