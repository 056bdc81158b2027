"""Nexmark's queries as somebody would write them in plain PySpark.

Rows that do not change are appended to Parquet files; those that do are merged into a Delta table by their keys, batch
by batch. q4 and q6 are not here: Spark has no aggregate behind a join whose rows change, in one query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.nexmark.generator import SIDE_ROWS
from pipelines.nexmark.schemas import Kind

Read = Callable[[Kind], DataFrame]
LATE = "4 seconds"
EUROS = "CAST(0.908 * price AS decimal(23, 3))"
NUMBER = "nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')"
# Several steps with state in a query; and a table's log in as many parts as a small machine has cores, not in 50.
SETTINGS = {
    "spark.sql.streaming.statefulOperator.allowMultiple": "true",
    "spark.databricks.delta.snapshotPartitions": "2",
}
RANKS = {"rank1": "price < 10000", "rank2": "price >= 10000 AND price < 1000000", "rank3": "price >= 1000000"}


@dataclass(frozen=True, slots=True)
class ByHand:
    """A query, and the `keys` of its rows if they change; `newest` is what the row to keep has most of.

    `later`: it waits for windows to close where ours does not, so that rows of the last windows are lacking.
    """

    make: Callable[[Read], DataFrame]
    keys: tuple[str, ...] = ()
    newest: str = ""
    later: bool = False

    def run(self, read: Read, folder: Path) -> int:
        """Process all there is into `folder`, with a fresh checkpoint; the number of rows written."""
        query = self.make(read)
        for setting, value in SETTINGS.items():
            query.sparkSession.conf.set(setting, value)
        writer = query.writeStream.trigger(availableNow=True).option("checkpointLocation", str(folder / "checkpoint"))
        rows = str(folder / "rows")
        if not self.keys:
            writer.format("parquet").start(rows).awaitTermination()
            return _rows_below(folder / "rows")
        writer.outputMode("append" if self.newest else "update").foreachBatch(
            self._merge(rows)
        ).start().awaitTermination()
        return int(query.sparkSession.read.format("delta").load(rows).count())

    def _merge(self, table: str) -> Callable[[DataFrame, int], None]:
        def merge(batch: DataFrame, _: int) -> None:
            from delta.tables import DeltaTable

            spark = batch.sparkSession
            if self.newest:
                batch = (
                    batch.groupBy(*self.keys)
                    .agg(F.max_by(F.struct("*"), F.expr(self.newest)).alias("row"))
                    .select("row.*")
                )
            if not DeltaTable.isDeltaTable(spark, table):
                batch.write.format("delta").save(table)
                return
            same = " AND ".join(f"old.{key} <=> new.{key}" for key in self.keys)
            into = DeltaTable.forPath(spark, table).alias("old").merge(batch.alias("new"), same)
            newer = self.newest.replace("(", "(new.").replace(", ", ", new.") if self.newest else ""
            older = newer.replace("new.", "old.")
            into.whenMatchedUpdateAll(f"{newer} >= {older}" if newer else None).whenNotMatchedInsertAll().execute()

        return merge


def _rows_below(folder: Path) -> int:
    from benchmarks.by_hand import rows_below

    return rows_below(folder)


def _selected(*columns: str, where: str = "true") -> Callable[[Read], DataFrame]:
    return lambda read: read("bids").where(where).selectExpr(*columns)


def _window(name: str = "w") -> list[Column]:
    return [F.col(f"{name}.start").alias("start_time"), F.col(f"{name}.end").alias("end_time")]


def _q3(read: Read) -> DataFrame:
    sellers = read("persons").where("state IN ('OR', 'ID', 'CA')").withColumnRenamed("id", "person")
    sold = read("auctions").where("category = 10").join(sellers, F.col("seller") == F.col("person"))
    return sold.select("name", "city", "state", "id")


def _q5(read: Read) -> DataFrame:
    hops = read("bids").withWatermark("date_time", LATE)
    counts = hops.groupBy(F.window("date_time", "10 seconds", "2 seconds").alias("w"), "auction").agg(
        F.count(F.lit(1)).alias("num")
    )
    hottest = counts.groupBy(F.window(F.window_time("w"), "2 seconds").alias("last")).agg(
        F.max("num").alias("most"), F.collect_list(F.struct("num", "auction", "w")).alias("counts")
    )
    return hottest.selectExpr("inline(filter(counts, each -> each.num = most))").select("num", "auction", *_window())


def _q7(read: Read) -> DataFrame:
    highest = read("bids").withWatermark("date_time", LATE).groupBy(F.window("date_time", "10 seconds").alias("w"))
    ends = highest.agg(F.max("price").alias("most")).select("most", F.window_time("w").alias("last"))
    bids = read("bids").withWatermark("date_time", LATE)
    # The last time of a window lies a microsecond before its end.
    end = "last + interval 1 microsecond"
    near = f"price = most AND date_time BETWEEN {end} - interval 10 seconds AND {end}"
    both = bids.join(ends, F.expr(near))
    return both.select("auction", "bidder", "price", "date_time", "extra", F.expr(end).alias("end_time"))


def _q8(read: Read) -> DataFrame:
    ten = F.window("date_time", "10 seconds")
    persons = read("persons").withWatermark("date_time", LATE).groupBy(ten.alias("w"), "id", "name").count()
    sellers = read("auctions").withWatermark("date_time", LATE).groupBy(ten.alias("at"), "seller").count()
    both = persons.join(sellers, (F.col("id") == F.col("seller")) & (F.col("w") == F.col("at")))
    return both.select("id", "name", F.col("w.start").alias("start_time"))


def _q9(read: Read) -> DataFrame:
    auctions = read("auctions").withWatermark("date_time", LATE)
    bids = read("bids").withWatermark("date_time", LATE)
    bids = bids.select(*(F.col(name).alias(f"bid_{name}") for name in bids.columns))
    near = "id = bid_auction AND bid_date_time BETWEEN date_time AND date_time + interval 4 seconds"
    pairs = auctions.join(bids, F.expr(f"{near} AND bid_date_time <= expires"))
    best = F.expr("max_by(struct(*), struct(bid_price, -unix_micros(bid_date_time)))").alias("won")
    return pairs.groupBy("id", F.window("date_time", "1 second").alias("w")).agg(best).select("won.*")


def _q11(read: Read) -> DataFrame:
    sessions = read("bids").withWatermark("date_time", LATE).groupBy(
        F.session_window("date_time", "10 seconds").alias("w"), "bidder"
    )  # fmt: skip
    return sessions.agg(F.count(F.lit(1)).alias("bid_count")).select("bidder", "bid_count", *_window())


def _q13(read: Read) -> DataFrame:
    bids = read("bids").withColumn("key", F.expr("auction % 10000"))
    side = bids.sparkSession.range(SIDE_ROWS).selectExpr("id AS key", "concat('value-', id) AS value")
    return bids.join(F.broadcast(side), "key").select("auction", "bidder", "price", "date_time", "value")


def _by_rank(read: Read, *keys: str, **more: str) -> DataFrame:
    counts = [F.expr(f"count_if({where})").alias(f"{rank}_bids") for rank, where in RANKS.items()]
    different = [
        F.expr(f"size(collect_set(CASE WHEN {where} THEN {what} END))").alias(f"{rank}_{what}s")
        for rank, where in {"total": "true", **RANKS}.items()
        for what in ("bidder", "auction")
    ]
    others = [F.expr(text).alias(name) for name, text in more.items()]
    return _days(read, *keys).agg(F.count(F.lit(1)).alias("total_bids"), *counts, *different, *others)


def _days(read: Read, *keys: str) -> Any:
    return read("bids").groupBy(F.expr("date_trunc('day', date_time)").alias("start_time"), *keys)


def _q17(read: Read) -> DataFrame:
    counts = [F.expr(f"count_if({where})").alias(f"{rank}_bids") for rank, where in RANKS.items()]
    prices = [F.expr(f"{name}(price)").alias(f"{name}_price") for name in ("min", "max", "sum")]
    average = F.expr("sum(price) div count(price)").alias("avg_price")
    made: DataFrame = _days(read, "auction").agg(F.count(F.lit(1)).alias("total_bids"), *counts, *prices, average)
    return made


def _q19(read: Read) -> DataFrame:
    top = F.expr("max_by(row, struct(row.price, row.date_time, row.bidder), 10)").alias("top")
    bids = read("bids").select(
        "auction", F.struct("price", "date_time", "bidder", "channel", "url", "extra").alias("row")
    )
    ranked = bids.groupBy("auction").agg(top).selectExpr("auction", "posexplode(top) AS (place, row)")
    return ranked.selectExpr("auction", "place + 1 AS rank_number", "row.*")


def _q20(read: Read) -> DataFrame:
    auctions = read("auctions").where("category = 10")
    auctions = auctions.select(*(F.col(name).alias(f"auction_{name}") for name in auctions.columns))
    return read("bids").join(auctions, F.col("auction") == F.col("auction_id"))


BIDS = ("auction", "bidder", "price", "channel", "url", "date_time", "extra")
BY_HAND: Mapping[str, ByHand] = MappingProxyType(
    {
        "q0": ByHand(_selected("*")),
        "q1": ByHand(_selected("auction", "bidder", f"{EUROS} AS price", "channel", "url", "date_time", "extra")),
        "q2": ByHand(_selected("auction", "price", where="auction % 123 = 0")),
        "q3": ByHand(_q3),
        "q5": ByHand(_q5),
        "q7": ByHand(_q7),
        "q8": ByHand(_q8, later=True),
        "q9": ByHand(_q9),
        "q10": ByHand(
            _selected("*", "date_format(date_time, 'yyyy-MM-dd') AS dt", "date_format(date_time, 'HH:mm') AS hm")
        ),
        "q11": ByHand(_q11),
        "q13": ByHand(_q13),
        "q14": ByHand(
            _selected(
                "auction", "bidder", f"{EUROS} AS price",
                "CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime' WHEN hour(date_time) <= 6 OR"
                " hour(date_time) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bid_time_type",
                "date_time", "extra", "length(extra) - length(replace(extra, 'c', '')) AS c_counts",
                where="0.908 * price > 1000000 AND 0.908 * price < 50000000",
            )
        ),
        "q15": ByHand(_by_rank, keys=("start_time",)),
        "q16": ByHand(
            lambda read: _by_rank(read, "channel", minute="max(date_format(date_time, 'HH:mm'))"),
            keys=("channel", "start_time"),
        ),
        "q17": ByHand(_q17, keys=("auction", "start_time")),
        "q18": ByHand(
            _selected(*BIDS), keys=("bidder", "auction"), newest="struct(date_time, price, channel, url, extra)"
        ),
        "q19": ByHand(_q19, keys=("auction", "rank_number")),
        "q20": ByHand(_q20),
        "q21": ByHand(
            _selected(
                "auction", "bidder", "price", "channel",
                "CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'"
                f" WHEN 'baidu' THEN '3' ELSE {NUMBER} END AS channel_id",
                where=f"lower(channel) IN ('apple', 'google', 'facebook', 'baidu') OR {NUMBER} IS NOT NULL",
            )
        ),
        "q22": ByHand(
            _selected(
                "auction", "bidder", "price", "channel",
                *(f"split_part(url, '/', {place + 3}) AS dir{place}" for place in (1, 2, 3)),
            )
        ),
    }
)  # fmt: skip
