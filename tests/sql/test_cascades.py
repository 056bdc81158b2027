"""Windows over rows of windows, by the last instant of those: what Flink documents, against plain Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from rs_assets import pipeline_from_sql
from rs_assets.spark.driver import SparkDriver

START = datetime(2026, 1, 5, tzinfo=UTC)
ROWS = [
    {"page": "ab"[n % 2], "ms": n, "ts": START + timedelta(seconds=n * 37 + (n % 5) * 11)} for n in range(120)
]  # fmt: skip
TABLES = """
CREATE TABLE clicks (page STRING, ms BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' MINUTE)
    WITH ('connector' = 'memory');
CREATE VIEW small AS SELECT page, window_start AS ws, window_end AS we, window_time AS rt, SUM(ms) AS part
    FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '5' MINUTE))
    GROUP BY page, window_start, window_end, window_time;
CREATE VIEW older AS SELECT page, TUMBLE_ROWTIME(ts, INTERVAL '5' MINUTE) AS rt, SUM(ms) AS part
    FROM clicks GROUP BY page, TUMBLE(ts, INTERVAL '5' MINUTE);
"""
RANKED = """SELECT page, window_start AS a, window_end AS b, ms AS n FROM (
    SELECT page, ms, window_start, window_end, ROW_NUMBER() OVER (
        PARTITION BY page, window_start, window_end ORDER BY ms DESC) AS rn
    FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' MINUTE))) AS t"""
SINK = "CREATE TABLE {} (page STRING, a TIMESTAMP(3), b TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print');"
QUERIES = {
    # As in Flink's pages: windows of ten minutes over those of five.
    "ten": """SELECT page, window_start AS a, window_end AS b, SUM(part) AS n FROM TABLE(
        TUMBLE(TABLE small, DESCRIPTOR(rt), INTERVAL '10' MINUTE)) GROUP BY page, window_start, window_end""",
    # Its bounds are none of those of before, and the first instants of these would put rows into others.
    "seven": """SELECT page, TUMBLE_START(rt, INTERVAL '7' MINUTE) AS a, TUMBLE_END(rt, INTERVAL '7' MINUTE) AS b,
        SUM(part) AS n FROM older GROUP BY page, TUMBLE(rt, INTERVAL '7' MINUTE)""",
    # Bounds of the windows before are keys like others.
    "keyed": """SELECT page, ws AS a, TUMBLE_END(rt, INTERVAL '7' MINUTE) AS b, SUM(part) AS n FROM small
        GROUP BY ws, page, TUMBLE(rt, INTERVAL '7' MINUTE)""",
    "early": """SELECT page, window_start AS a, window_end AS b, SUM(ms) AS n FROM TABLE(TUMBLE(TABLE clicks,
        DESCRIPTOR(ts), INTERVAL '10' MINUTE, INTERVAL -'3' MINUTE)) GROUP BY page, window_start, window_end""",
    # OVER in lower case.
    "running": """SELECT page, ts AS a, ts AS b, sum(ms) over (partition by page order by ts rows between 2 preceding
        and current row) AS n FROM clicks""",
    "second": f"{RANKED} WHERE rn = 2",
    "some": f"{RANKED} WHERE rn BETWEEN 2 AND 3",
    "many": f"SELECT page, ts AS a, ts AS b, ms AS n FROM clicks WHERE {' OR '.join(f'ms = {n}' for n in range(600))}",
}
Row = tuple[str, datetime, datetime, int]


def floor(at: datetime, minutes: int, offset: int = 0) -> datetime:
    size = timedelta(minutes=minutes)
    return at - (at - datetime(1970, 1, 1, tzinfo=UTC) - timedelta(minutes=offset)) % size


def summed(rows: Iterable[tuple[str, datetime, datetime, int]]) -> list[Row]:
    found: dict[tuple[str, datetime, datetime], int] = defaultdict(int)
    for page, a, b, n in rows:
        found[page, a, b] += n
    return sorted((*key, n) for key, n in found.items())


def windows(minutes: int, offset: int = 0) -> list[Row]:
    size = timedelta(minutes=minutes)
    return summed(
        (row["page"], floor(row["ts"], minutes, offset), floor(row["ts"], minutes, offset) + size, row["ms"])
        for row in ROWS
    )


def again(minutes: int) -> list[tuple[Row, datetime, datetime]]:
    """The rows of windows of five minutes, with the bounds of the windows that their last instants are in."""
    size, last = timedelta(minutes=minutes), timedelta(milliseconds=1)
    return [(row, floor(row[2] - last, minutes), floor(row[2] - last, minutes) + size) for row in windows(5)]


def ranked(*numbers: int) -> list[Row]:
    groups: dict[tuple[str, datetime], list[int]] = defaultdict(list)
    for row in ROWS:
        groups[row["page"], floor(row["ts"], 10)].append(row["ms"])
    return sorted(
        (page, a, a + timedelta(minutes=10), sorted(values, reverse=True)[number - 1])
        for (page, a), values in groups.items()
        for number in numbers
        if number <= len(values)
    )


def running() -> list[Row]:
    found = []
    for page in "ab":
        rows = sorted((row for row in ROWS if row["page"] == page), key=lambda row: row["ts"])
        found += [
            (page, row["ts"], row["ts"], sum(each["ms"] for each in rows[max(0, n - 2) : n + 1]))
            for n, row in enumerate(rows)
        ]
    return sorted(found)


def test_windows_of_windows_when_their_time_is_the_last_instant_are_those_of_flink(driver: SparkDriver) -> None:
    text = TABLES
    for name, query in QUERIES.items():
        text += (
            f"CREATE TABLE {name} (page STRING, a TIMESTAMP(3), b TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print');"
        )
        text += f"INSERT INTO {name} {query};"
    made: Any = pipeline_from_sql(text, tables={"clicks": []}).try_(ROWS, spark=driver)
    found = {name: sorted(tuple(row.values()) for row in made[name]) for name in QUERIES}
    assert found["ten"] == summed((row[0], a, b, row[3]) for row, a, b in again(10))
    assert found["seven"] == summed((row[0], a, b, row[3]) for row, a, b in again(7))
    assert found["keyed"] == summed((row[0], row[1], b, row[3]) for row, _, b in again(7))
    assert found["early"] == windows(10, -3)
    assert found["running"] == running()
    assert found["second"] == ranked(2)
    assert found["some"] == ranked(2, 3)
    assert len(found["many"]) == len(ROWS)
