"""The pipeline of a campaign, as a program to be killed: changes of a table, its mirror and its history, into Delta.

    python -m tests.changes.program KIND URL HOME SIGNS go|finish

The file SIGNS grows by a byte before and after each batch is staged into a table, and after its commit.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from rs_assets import Pipeline, RunOptions, StreamBuilder
from rs_assets.common.home import Home
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.connectors.sink import BatchMark, Staged
from rs_assets.spark.driver import SparkDriver
from tests.changes.replay import Change, Version
from tests.torture.site import SMALL

NAMESPACE, BATCH = "changes", 20_000
OPTIONS: dict[str, Any] = {"truncate": "row", "added_columns": "ignore", "max_rows_per_batch": BATCH}
VALUES = ("v", "n", "at", "big")


def mirrored(kind: str, url: str) -> Pipeline:
    """The changes of `t` as they are, its rows, and its history."""
    begin = StreamBuilder.data_stream(NAMESPACE, "mirror")
    made = begin.from_postgres(url, "t", **OPTIONS) if kind == "postgres" else begin.from_mariadb(url, "t", **OPTIONS)
    made.to_delta("changes")
    # What a TRUNCATE removes is deleted, or written again, in the same transaction.
    rows = made.filter("op <> 'truncate'").with_fields(gone="op = 'delete'")
    order = {"keys": ["id"], "order_by": ["lsn", "seq"], "deletes": "gone"}
    rows.to_delta("history", mode="history", time_field="commit_time", **order)
    return rows.to_delta("mirror", mode="upsert", **order).build()


class Outputs:
    """What the pipeline has written into a home."""

    def __init__(self, home: Path) -> None:
        self._home = Home(home)

    def changes(self) -> tuple[list[Change], list[tuple[int, int]]]:
        """The changes and their places, in the order of these."""
        rows = sorted(self._rows("changes"), key=lambda row: (row["lsn"], row["seq"]))
        made = [Change(row["op"], row["id"], _values(row), row["commit_time"]) for row in rows]
        return made, [(row["lsn"], row["seq"]) for row in rows]

    def mirror(self) -> dict[int, tuple[Any, ...]]:
        """The rows of the mirror."""
        return {row["id"]: _values(row) for row in self._rows("mirror")}

    def history(self) -> list[Version]:
        """The rows of the history."""
        rows = self._rows("history")
        return [Version(r["id"], _values(r), r["valid_from"], r["valid_to"], r["current"]) for r in rows]

    def _rows(self, table: str) -> list[dict[str, Any]]:
        return DeltaTable(self._home.table(NAMESPACE, table)).to_pyarrow_table().to_pylist()


def _values(row: dict[str, Any]) -> tuple[Any, ...]:
    """The values of a row, of the large one its hash, as the journal has it; none of a TRUNCATE."""
    if row["id"] is None:
        return (None,) * len(VALUES)
    big = row["big"]
    return (row["v"], row["n"], row["at"], None if big is None else hashlib.md5(big.encode()).hexdigest())


def watched(signs: Path) -> None:
    """Let `signs` grow with each step of a batch into a table."""
    stage = DeltaWriter.stage

    def sign() -> None:
        with signs.open("ab") as file:
            file.write(b".")

    def staging(sink: DeltaWriter, batch: Any, mark: BatchMark) -> Staged:
        sign()
        staged = stage(sink, batch, mark)
        sign()

        def commit() -> int:
            rows = staged.commit()
            sign()
            return rows

        return Staged(commit)

    DeltaWriter.stage = staging  # type: ignore[method-assign]


def main(kind: str, url: str, home: str, signs: str, how: str) -> None:
    """Run until it is killed, or to the end of what is there."""
    watched(Path(signs))
    options = RunOptions(home=Home(Path(home)), driver=SparkDriver.shared(SMALL))
    pipeline = mirrored(kind, url)
    if how == "finish":
        pipeline.run(options)
        return
    with pipeline.start(options) as running:
        running.await_termination()


if __name__ == "__main__":
    main(*sys.argv[1:])
