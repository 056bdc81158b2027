"""Nexmark's queries against DuckDB over the same files, which are read in several batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pipelines.nexmark.generator import Settings, write
from pipelines.nexmark.queries import nexmark
from pipelines.nexmark.sources import Files
from rs_assets.runtime.options import RunOptions
from rs_assets.spark.driver import SparkDriver
from tests.nexmark.reference import SQL, compare

# Fifty seconds around midnight, out of order by a quarter of a second.
SETTINGS = Settings(events=10_000, rate=200, files=2, disorder=50, start=datetime(2026, 1, 5, 23, 59, 40, tzinfo=UTC))

UNREAD = Files(folder=Path("unread"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("events") / "nexmark", SETTINGS)


def run(query: str, folder: Path, options: RunOptions) -> pa.Table:
    origin = Files(folder=folder, files_per_batch=1)
    pipeline = nexmark(query, origin, longest_auction=SETTINGS.longest_auction)
    report = pipeline.run(options, finish=True)
    assert (report.rows_late, report.rows_dead) == (0, 0)
    return DeltaTable(options.home.table("nexmark", query)).to_pyarrow_table()


# One of each kind: a join, a chain of aggregates, windows behind windows, rows of equal rank, a dimension.
ALWAYS = {"q3", "q4", "q5", "q9", "q13"}


@pytest.mark.parametrize(
    "query", [query if query in ALWAYS else pytest.param(query, marks=pytest.mark.long) for query in SQL]
)
def test_a_query_equals_duckdb(query: str, folder: Path, options: RunOptions) -> None:
    table = run(query, folder, options)
    rows, lacking, surplus = compare(query, folder, table)
    assert rows > 0
    assert (lacking, surplus) == (0, 0)


def test_the_bids_of_a_bidder_are_counted_by_arrival(folder: Path, options: RunOptions) -> None:
    table = run("q12", folder, options)
    found: Counter[int] = Counter()
    for row in table.to_pylist():
        found[row["bidder"]] += row["bid_count"]
        assert row["end_time"] - row["start_time"] == timedelta(seconds=10)
    expected = Counter(row["bidder"] for row in read_events(folder / "bids"))
    assert found == expected


def test_all_that_are_equally_good_are_shown(driver: SparkDriver) -> None:
    """By chance no two prices are equal, and hardly two counts."""
    bids = [bid(auction=n % 2, price=[5, 9, 9, 1][n], at=n) for n in range(4)] + [bid(auction=7, price=3, at=50)]
    found = nexmark("q5", UNREAD).try_({"bids": bids}, spark=driver)["q5_table"]
    starts = [row["window_start"].second for row in found if row["num"] == 2]
    # Windows from -8 s on; the last to have all four bids begins at 0.
    assert sorted(starts) == sorted(2 * [54, 56, 58, 0])
    assert {row["auction"] for row in found if row["num"] == 2} == {0, 1}
    found = nexmark("q7", UNREAD).try_({"bids": bids, "bids_again": bids}, spark=driver)["q7_table"]
    assert sorted((row["auction"], row["price"]) for row in found) == [(0, 9), (1, 9), (7, 3)]


def test_of_equal_bids_the_first_wins_and_late_ones_never(driver: SparkDriver) -> None:
    auction = {
        "id": 1, "item_name": "a", "description": "d", "initial_bid": 1, "reserve": 2, "date_time": moment(0),
        "expires": moment(3), "seller": 4, "category": 10, "extra": "e",
    }  # fmt: skip
    bids = [bid(auction=1, price=price, at=second) for price, second in ((5, 2), (8, 3), (8, 1), (9, 4), (99, -1))]
    found = nexmark("q9", UNREAD).try_({"auctions": [auction], "bids": bids}, spark=driver)["q9_table"]
    assert [(row["id"], row["bid_price"], row["bid_date_time"]) for row in found] == [(1, 8, moment(1))]


def moment(second: int) -> datetime:
    return datetime(2026, 1, 5, 12, 0, tzinfo=UTC) + timedelta(seconds=second)


def bid(*, auction: int, price: int, at: int) -> dict[str, object]:
    return {
        "auction": auction, "bidder": 1, "price": price, "channel": "c", "url": "u", "date_time": moment(at),
        "extra": "x",
    }  # fmt: skip


def read_events(folder: Path) -> Iterator[dict[str, int]]:
    for path in folder.iterdir():
        yield from map(orjson.loads, path.read_bytes().splitlines())
