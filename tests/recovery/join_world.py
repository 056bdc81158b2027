"""A pipeline that joins two followed files, for the tests of savepoints, rewinds, rescales and state as rows."""

import json
from collections import Counter

from deltalake import DeltaTable

from rs_assets import Interval, StreamBuilder, Time
from rs_assets.checkpoint import manifest as manifests
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.runtime.identity import log_of
from tests.operators.join_model import AsOf, Joined
from tests.operators.model import at

WITHIN = Interval.of(before=Time.seconds(4), after=Time.seconds(20))
ROWS = {
    "one": [{"k": [None, "a", "b", "c"][n % 4], "v": n, "ts": at(2 * n)} for n in range(120)],
    "two": [{"k": [None, "a", "b", "d"][n // 2 % 4], "w": n, "ts": at(2 * n)} for n in range(0, 240, 2)],
}


class JoinWorld:
    """`run(n)` adds n rows to each file, and `result()` is what the full join of them has given."""

    def __init__(self, options, folder):
        self.options, self.read, self.policy = options, 0, "fail"
        self.logs = {name: folder / f"{name}.jsonl" for name in ROWS}
        for log in self.logs.values():
            log.write_text("")

    def pipeline(self, within=WITHIN, how="full", condition=None):
        job = StreamBuilder.data_stream("shop", "chain")
        left, right = (
            job.from_file(self.logs[name], schema=f"k string, {value} bigint, ts timestamp", tail=True, name=name,
                          bad_records=self.policy)
            for name, value in (("one", "v"), ("two", "w"))
        )  # fmt: skip
        both = self.joined(left, right, within=within, how=how, condition=condition)
        return both.filter("v is null or v >= 0").to_delta("chain").build()

    def joined(self, left, right, **how):
        return left.join(right, on="k", time_field="ts", prefix="r_", water_mark=Time.seconds(5), **how)

    def append(self, **more):
        for name, rows in more.items():
            with self.logs[name].open("a") as log:
                for row in rows:
                    log.write(json.dumps({**row, "ts": row["ts"] and row["ts"].isoformat()}) + "\n")

    def run(self, rows=0, **how):
        self.append(**{name: every[self.read : self.read + rows] for name, every in ROWS.items()})
        self.read += rows
        return self.pipeline().run(self.options, **how)

    def log_of_query(self):
        folder = self.options.home.job("shop", "chain")
        return log_of(manifests.load(folder), plan_queries(self.pipeline().topology)[0], folder)

    def result(self):
        table = DeltaTable(self.options.home.table("shop", "chain")).to_pyarrow_table().to_pylist()
        standing = Counter((str(row["v"]), str(row["r_w"])) for row in table if not row.get("retracted"))
        standing.subtract((str(row["v"]), str(row["r_w"])) for row in table if row.get("retracted"))
        return sorted(standing.elements())

    def expected(self):
        kept = [[(row, None) for row in every[: self.read]] for every in ROWS.values()]
        return self.told(self.model.rows(kept))

    @property
    def model(self):
        return Joined(WITHIN, "full")

    def told(self, made):
        return sorted((str(left and left["v"]), str(right and right["w"])) for left, right, _ in made)


class ByProcessorWorld(JoinWorld):
    """The same join by a processor, which keeps rows by key and time."""

    def joined(self, left, right, **how):
        return super().joined(left, right, processor=True, **how)


class EarlyWorld(JoinWorld):
    """The same join, whose rows without partner come at once; `result()` is what was not taken back."""

    def joined(self, left, right, **how):
        return super().joined(left, right, early=True, **how)


class AsOfWorld(JoinWorld):
    """Each row of the first file with the newest one of the second."""

    def joined(self, left, right, **how):
        settings = {"time_field": "ts", "prefix": "r_", "water_mark": Time.seconds(5)}
        return left.asof_join(right, on="k", tolerance=Time.seconds(20), name="join", **settings)

    @property
    def model(self):
        return AsOf("left", 20)
