"""Windows that take rows in their order, or have no end, for the tests of savepoints, rewinds and rescales."""

import json
from collections import Counter, defaultdict
from types import MappingProxyType

from deltalake import DeltaTable

from rs_assets import CountWindow, Dimension, GlobalWindow, OverWindow, SlidingWindow, StreamBuilder, Time
from tests.operators.model import second
from tests.recovery.join_world import ROWS, JoinWorld

SIZE = 4


def path(before, row):
    """Depends on the order of the rows."""
    return {"path": f"{before['path']} {row['v']}" if before else str(row["v"])}


class CountedWorld(JoinWorld):
    """Each four rows of a key, looked up before, and their way by a function in Python."""

    def pipeline(self, job="chain"):
        users = self.logs["one"].with_name("users.jsonl")
        if not users.exists():
            users.write_text("".join(json.dumps({"k": k, "tier": f"t{k}"}) + "\n" for k in "abc"))
        source = StreamBuilder.data_stream("shop", job).from_file(
            self.logs["one"], schema="k string, v bigint, ts timestamp", tail=True, name="one"
        )
        known = source.dim_join(Dimension.from_file(users, schema="k string, tier string"), on="k", name="known")
        return self.windows(known).to_data_stream().to_delta(job).build()

    def windows(self, stream):
        window = stream.window(CountWindow.of(SIZE, "ts"), name="join").group_by("tier")
        return window.reduce(path, schema="path string", fields=["v"]).water_mark(Time.seconds(5))

    def result(self, job="chain"):
        table = DeltaTable(self.options.home.table("shop", job)).to_pyarrow_table().to_pylist()
        return sorted((row["tier"], row["path"]) for row in table)

    def groups(self):
        found = defaultdict(list)
        for row in ROWS["one"][: self.read]:
            found[f"t{row['k']}"].append(row)
        return {tier: rows for tier, rows in found.items() if tier != "tNone"}

    def expected(self):
        return sorted(
            (tier, " ".join(str(row["v"]) for row in rows[first : first + SIZE]))
            for tier, rows in self.groups().items()
            for first in range(0, len(rows), SIZE)
        )


class SlidingWorld(CountedWorld):
    """What the ten seconds before each row have, of rows out of order, each of which is judged by those before it."""

    # Every seventh row comes half a minute too late, and others by less than the water mark.
    ROWS = tuple(
        {"k": row["k"], "v": n, "ts": row["ts"] - Time.seconds(30 if n % 7 == 6 else n % 3)}
        for n, row in enumerate(ROWS["one"])
    )

    def windows(self, stream):
        window = (
            stream.window(SlidingWindow.of(Time.seconds(10), "ts"), name="join").group_by("tier").collect("v", "all")
        )
        return window.late_to("late").water_mark(Time.seconds(5), per="split", lateness="record")

    def run(self, rows=0, **how):
        self.append(one=self.ROWS[self.read : self.read + rows])
        self.read += rows
        return self.pipeline().run(self.options, **how)

    def result(self, job="chain"):
        told, late = (
            DeltaTable(self.options.home.table("shop", name)).to_pyarrow_table().to_pylist() for name in (job, "late")
        )
        ends = [row for row in told if not row["start_time"].microsecond]
        made = [(str(row["tier"]), second(row["end_time"]), sorted(row["all"])) for row in ends]
        return sorted(made), sorted((row["v"], second(row["watermark"])) for row in late)

    def expected(self):
        used, late, passed = defaultdict(list), [], None
        for row in self.ROWS[: self.read]:
            if row["k"] not in tuple("abc"):
                continue
            at = second(row["ts"])
            if passed is not None and at <= passed:
                late.append((row["v"], passed))
            else:
                used[f"t{row['k']}"].append((at, row["v"]))
            passed = max(at - 5, at - 5 if passed is None else passed)
        ends = sorted({(tier, end) for tier, rows in used.items() for end, _ in rows})
        return [(tier, end, sorted(v for at, v in used[tier] if end - 10 <= at <= end)) for tier, end in ends], late


class RankedWorld(CountedWorld):
    """The greatest values of each twenty rows, which are forgotten half a minute behind the last of them."""

    def windows(self, stream):
        window = GlobalWindow.of("ts", time_to_live=Time.seconds(30))
        top = stream.with_fields(part="v div 20").window(window, name="join").group_by("part")
        return top.top_n(2, by="v", fields=["tier"]).water_mark(Time.seconds(5))

    def result(self, job="chain"):
        standing = Counter()
        for row in DeltaTable(self.options.home.table("shop", job)).to_pyarrow_table().to_pylist():
            standing[row["part"], row["rank"], row["v"], row["tier"]] += -1 if row["retracted"] else 1
        return sorted(standing.elements())

    def expected(self):
        groups = defaultdict(list)
        for row in ROWS["one"][: self.read]:
            if row["k"] in tuple("abc"):
                groups[row["v"] // 20].append(row)
        passed = max(row["ts"] for rows in groups.values() for row in rows) - Time.seconds(5)
        return [
            (part, rank, row["v"], f"t{row['k']}")
            for part, rows in sorted(groups.items())
            if max(row["ts"] for row in rows) + Time.seconds(30) > passed
            for rank, row in enumerate(sorted(rows, key=lambda row: -row["v"])[:2], start=1)
        ]


class OverWorld(JoinWorld):
    """Each row with the sum of its key up to it, for which the state has buffers and no rows that were told.

    Rows are out of order by less than the water mark, and three of a key have one time.
    """

    ROWS = tuple({**row, "ts": row["ts"] - Time.seconds(8 * (n % 3))} for n, row in enumerate(ROWS["one"]))
    WINDOW = OverWindow.rows(None, "ts", keep=["v"])
    SINK = MappingProxyType({})

    def pipeline(self, job="chain"):
        source = StreamBuilder.data_stream("shop", job).from_file(
            self.logs["one"], schema="k string, v bigint, ts timestamp", tail=True, name="one"
        )
        keys = source.window(self.WINDOW, name="join").group_by("k").sum("v", "total")
        keys = keys.aggregate(all="sort_array(collect_list(v))").water_mark(Time.seconds(20))
        return keys.to_data_stream().to_delta(job, **self.SINK).build()

    def run(self, rows=0, **how):
        self.append(one=self.ROWS[self.read : self.read + rows])
        self.read += rows
        return self.pipeline().run(self.options, **how)

    def result(self, job="chain"):
        table = DeltaTable(self.options.home.table("shop", job)).to_pyarrow_table().to_pylist()
        return sorted((row["k"] or "", row.get("v", 0), row["total"], row["all"]) for row in table)

    def expected(self):
        rows = self.ROWS[: self.read]
        of = {row["v"]: sorted(each["v"] for each in rows if self.within(each, row)) for row in rows}
        return sorted((row["k"] or "", row["v"], sum(of[row["v"]]), of[row["v"]]) for row in rows)

    def within(self, other, row):
        """Whether the window of `row` has `other`."""
        return other["k"] == row["k"] and (other["ts"], other["v"]) <= (row["ts"], row["v"])


class RangeWorld(OverWorld):
    """Each row with those of its key in the 24 seconds before it, and of its time, which the state keeps."""

    WINDOW = OverWindow.range(Time.seconds(24), "ts", keep=["v"])

    def within(self, other, row):
        return other["k"] == row["k"] and row["ts"] - Time.seconds(24) <= other["ts"] <= row["ts"]


class GlobalWorld(OverWorld):
    """All rows of a key, for ever, in a table that has what stands."""

    WINDOW = GlobalWindow.of("ts")
    SINK = MappingProxyType({"mode": "upsert", "keys": ["k"], "deletes": "retracted"})

    def expected(self):
        groups = defaultdict(list)
        for row in self.ROWS[: self.read]:
            groups[row["k"] or ""].append(row["v"])
        return sorted((key, 0, sum(values), values) for key, values in groups.items())
