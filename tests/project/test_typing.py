"""What type checkers say of a user's code: the package has types, so `mypy --strict` must take what the docs show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
from typing import Any

from rs_assets import F, MemoryChannel, Processor, StreamBuilder, Time, TumblingWindow, ValueStore
from rs_assets.testing import ProcessorTest


class Count(Processor):
    seen = ValueStore("n long")

    def process(self, key: dict[str, Any], row: dict[str, Any], context: Any) -> None:
        kept = context.seen.get() or {"n": 0}
        context.seen.put({"n": kept["n"] + 1})


def slow(row: dict[str, Any]) -> bool:
    return bool(row["ms"] > 100)


hits = StreamBuilder.data_stream("shop", "typed").from_memory(MemoryChannel(schema="page string, ms int, ts timestamp"))
chosen = hits.filter(slow).filter((F.col("ms") > 3) & ~F.col("page").isin("/a", "/b"))
rows = chosen.with_fields(half=F.col("ms") / 2, twice=2 * F.col("ms"), same=F.col("page") == F.lit("/"))
windows = rows.window(TumblingWindow.of(Time.minutes(1), "ts")).group_by("page").count("n").aggregate(most="max(ms)")
pipeline = windows.water_mark(Time.seconds(5)).to_delta("typed").build()
test = ProcessorTest(Count, keys="page", schema="page string")
kept: int = test.store("seen", page="/").get()["n"]
"""


@pytest.mark.long
def test_the_code_of_a_user_is_typed(tmp_path):
    (tmp_path / "typed.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "typed.py")]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.stdout.startswith("Success"), checked.stdout
