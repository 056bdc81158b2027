"""A failure at any point of a batch's commit, in one living session: every sink has each row once afterwards."""

import json

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.connectors.files.writer import FileWriter
from rs_assets.errors import RsError
from tests.crash import Crash

ROWS = [{"page": f"/{n % 3}", "ts": f"2024-01-01 00:{n:02d}:00"} for n in range(30)]


def pipeline(folder, out):
    stream = StreamBuilder.data_stream("shop", "crash").from_file(
        folder, schema="page string, ts timestamp", max_files_per_batch=1
    )
    windows = stream.window(TumblingWindow.of(Time.minutes(5), "ts")).group_by("page").count("n")
    windows = windows.water_mark(Time.hours(1)).to_data_stream()
    return windows.to_delta("windows").to_file(out).build()


@pytest.mark.parametrize("behind", [False, True], ids=["before the commit", "behind the commit"])
@pytest.mark.parametrize("writer", [DeltaWriter, FileWriter], ids=["first sink", "second sink"])
def test_should_write_every_window_once(tmp_path, options, monkeypatch, writer, behind):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for part in range(3):
        lines = (json.dumps(row) for row in ROWS[part * 10 : part * 10 + 10])
        (folder / f"{part}.jsonl").write_text("\n".join(lines))
    job = pipeline(folder, out)
    Crash(monkeypatch, writer, behind=behind)
    with pytest.raises(RsError, match="crash"):
        job.run(options, finish=True)
    job.run(options, finish=True)

    table = DeltaTable(options.home.table("shop", "windows")).to_pyarrow_table().to_pylist()
    files = [json.loads(line) for file in out.glob("batch=*/*.json") for line in file.read_text().splitlines()]
    expected = sorted((f"/{page}", start) for page in range(3) for start in range(0, 30, 5))
    assert sorted((row["page"], row["start_time"].minute) for row in table) == expected
    assert len(files) == len(expected)
    assert sum(row["n"] for row in table) == sum(row["n"] for row in files) == len(ROWS)


@pytest.mark.parametrize("name", [".0.1c0ffee5.tmp", "..0.1c0ffee5.tmp.crc"], ids=["the plan", "its checksum"])
def test_a_kill_while_the_very_first_plan_is_written_is_gone_on_from(tmp_path, options, name):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "0.jsonl").write_text("\n".join(json.dumps(row) for row in ROWS))
    offsets = options.home.job("shop", "crash") / "g0001" / "window" / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / name).touch()
    assert pipeline(folder, tmp_path / "out").run(options).rows_in == len(ROWS)
