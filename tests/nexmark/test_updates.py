"""q4 and q6 by updates: averages of winning bids of which each may still be outbid, as tables, against DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipelines.nexmark.generator import Settings, write
from pipelines.nexmark.sources import Events, Files
from rs_assets import StreamBuilder
from rs_assets.runtime.options import RunOptions
from rs_assets.stream.data_stream import DataStream
from rs_assets.stream.table import Table
from tests.nexmark.reference import compare

SETTINGS = Settings(events=2_000, rate=100, files=2, disorder=20)
IN_TIME = "right.date_time BETWEEN left.date_time AND left.expires"
# Of equal prices the first bid.
BEST = "max(named_struct('price', bid_price, 'earlier', -unix_micros(bid_date_time)))"


def pairs(events: Events) -> DataStream:
    """Each bid during its auction, however late it comes."""
    both = events.auctions().join(
        events.bids(), on={"id": "auction"}, within=None, condition=IN_TIME, prefix="bid_", name="pairs"
    )
    shown = both.select_fields("id", "category", "seller", "bid_price", "bid_date_time", name="shown")
    return shown.shuffle(1, strategy="delta", name="paired")


def q4(events: Events) -> Table:
    """The average price of the auctions of each category."""
    finals = pairs(events).group_by("id", "category").max("bid_price", "final").to_table(name="finals")
    return finals.group_by("category").aggregate(name="averages", final="sum(final) div count(final)")


def q6(events: Events) -> Table:
    """The average price of the last ten sales of each seller."""
    winners = pairs(events).group_by("id", "seller").aggregate(name="winners", best=BEST)
    sales = winners.map_values("best.price AS price", "-best.earlier AS at", name="sales")
    latest = sales.group_by("seller").top_n(10, by=["at", "id"], name="latest")
    return latest.group_by("seller").aggregate(name="averages", avg_price="sum(price) div count(price)")


QUERIES: Mapping[str, Callable[[Events], Table]] = {"q4": q4, "q6": q6}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("events") / "nexmark", SETTINGS)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_over_rows_that_change_equals_duckdb(query: str, folder: Path, options: RunOptions) -> None:
    begin = StreamBuilder.data_stream("nexmark", f"{query}_by_updates")
    table = QUERIES[query](Events(begin=begin, origin=Files(folder=folder, files_per_batch=1)))
    table.to_delta(query).build().run(options)
    rows, lacking, surplus = compare(query, folder, DeltaTable(options.home.table("nexmark", query)).to_pyarrow_table())
    assert rows > 0
    assert (lacking, surplus) == (0, 0)
