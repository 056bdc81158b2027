"""SIGKILL while the poison of a batch is looked for, noted, written and left out: nothing is lost or comes twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rs_assets.checkpoint import manifest as manifests
from rs_assets.common.home import Home
from rs_assets.runtime.options import RunOptions
from tests.faults.processes import PATIENCE_S, started, wait_for

LINES, POISON = 300, (1, 120, 300)

# With a word it stops for good at that point, so that the kill always meets it.
PROGRAM = """
import sys, threading
from pathlib import Path

from rs_assets.runtime.run import quarantine
from rs_assets.runtime.options import RunOptions
from rs_assets.common.home import Home
from rs_assets.connectors.dead_letters import DeadLetters
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets import StreamBuilder, Time, TumblingWindow

path, home, point, reached = sys.argv[1:]

def stop_at(owner, name, *, behind, always=False):
    original = getattr(owner, name)
    def stopping(*args):
        result = original(*args) if behind else None
        if result or always or not behind:
            Path(reached).touch()
            threading.Event().wait()
        return result
    setattr(owner, name, stopping)

if point == "found":
    stop_at(quarantine, "_keep", behind=False)
elif point == "kept":
    # Not where it starts again: a query that found no worker on a busy machine does so, too.
    stop_at(quarantine, "_keep", behind=True, always=True)
elif point == "letters":
    stop_at(DeadLetters, "write", behind=True)
elif point == "sink":
    stop_at(DeltaWriter, "_add", behind=True)
stream = StreamBuilder.data_stream("shop", "killed").from_file(
    path, schema="n bigint, ts timestamp", tail=True, max_rows_per_batch=150, bad_records="quarantine"
).with_fields(x="10 div n", name="inverse")
stream.to_delta("kept")
windows = stream.window(TumblingWindow.of(Time.seconds(10), "ts")).count("rows").sum("x", "sum").to_data_stream()
windows.to_delta("windows").build().run(RunOptions(home=Home(Path(home))), finish=True)
"""


def column(options: RunOptions, table: str, name: str) -> list[object]:
    return sorted(DeltaTable(options.home.table("shop", table)).to_pyarrow_table()[name].to_pylist())


@pytest.mark.long
# Five starts of Python and Java, each of which may have to wait for a busy machine.
@pytest.mark.timeout(900)
@pytest.mark.faults
def test_killed_at_each_point_of_the_quarantine_it_keeps_and_refuses_each_record_once(tmp_path: Path) -> None:
    records = [
        {"n": 0 if line in POISON else line, "ts": f"2024-01-01T00:{line // 60:02d}:{line % 60:02d}Z"}
        for line in range(1, LINES + 1)
    ]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    home = tmp_path / "rs"
    home.mkdir()
    options = RunOptions(home=Home(home))
    folder = options.home.job("shop", "killed")
    for point in ("found", "kept", "letters", "sink"):
        reached = home / f"reached-{point}"
        with started(PROGRAM, path, home, point, reached) as process:
            wait_for(reached, process)
        manifest = manifests.load(folder)
        assert manifest is not None
        noted = any(facts.poisons for facts in manifest.queries.values())
        assert noted == (point != "found"), point
    with started(PROGRAM, path, home, "", "-") as process:
        output, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, output.decode()[-3000:]
    assert column(options, "kept", "n") == [n for n in range(1, LINES + 1) if n not in POISON]
    assert sum(map(int, column(options, "windows", "rows"))) == LINES - len(POISON)  # type: ignore[call-overload]
    letters = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().to_pylist()
    # Both queries compute the step, and each tells of what it had to leave out.
    assert {row["step"] for row in letters} == {"inverse"}
    queries = {row["query"] for row in letters}
    assert len(queries) == 2
    for query in queries:
        assert sorted(row["line"] for row in letters if row["query"] == query) == list(POISON)
