"""Windows that take rows in their order, and rows looked up, for the tests of savepoints, rewinds and rescales."""

import json
from collections import defaultdict

from deltalake import DeltaTable

from rs_assets import CountWindow, Dimension, StreamBuilder, Time
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
