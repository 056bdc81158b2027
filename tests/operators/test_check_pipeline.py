"""A pipeline in several ways: what no correct one has, what depends on batches and order, and the step at fault."""

import json
import random

import pytest
from click.testing import CliRunner

from rs_assets import GlobalWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.cli.main import main
from rs_assets.errors import UserError
from rs_assets.testing import check_pipeline
from rs_assets.testing.pipeline import PipelineFinding

FIELDS = "n bigint, k string, ts timestamp"


def rows(count):
    return [{"n": n, "k": "ab"[n % 2], "ts": f"2026-01-05 10:{n:02d}:00"} for n in range(count)]


def read(name):
    return StreamBuilder.data_stream("shop", name).from_file("in.jsonl", schema=FIELDS)


def draw(row):
    return {**row, "n": random.getrandbits(60)}


def test_a_function_by_chance_should_be_found_and_named(driver):
    drawn = read("drawn").filter("n >= 0", name="all").map(draw, schema=FIELDS, name="draw")
    found = check_pipeline(drawn.to_print(name="out").build(), rows(6), ways=["again"], spark=driver)
    [finding] = found.wrong
    assert (finding.way, finding.sink, finding.missing, finding.added) == ("again", "out", 6, 6)
    assert finding.step == "draw"
    assert "step 'draw' gives other rows if it is computed twice" in str(found)


def test_late_rows_should_make_windows_depend_on_batches_and_be_counted(driver):
    windows = read("late").window(TumblingWindow.of(Time.minutes(5), "ts"), name="minutes").group_by("k").count("rows")
    pipeline = windows.to_data_stream().to_print(name="out").build()
    found = check_pipeline(pipeline, rows(20)[::-1], ways=["restarted", "one batch"], spark=driver)
    assert not found.wrong
    [finding] = found.findings
    assert (finding.way, finding.sink) == ("one batch", "out")
    assert finding.late[0] > 0 == finding.late[1]
    assert "the same restarted" in str(found)


def test_the_last_row_of_a_key_should_not_depend_on_batches(driver):
    total = read("totals").window(GlobalWindow.of(), name="all").group_by("k").sum("n", "total")
    upserts = {"mode": "upsert", "keys": ["k"], "deletes": "retracted"}
    pipeline = total.to_data_stream().to_delta("totals", **upserts, name="out").build()
    found = check_pipeline(pipeline, rows(12), ways=["one batch"], spark=driver)
    assert (found.findings, found.ways) == ((), ("one batch",))
    assert found.rows["out"] > 2


def test_an_error_of_another_way_should_be_wrong():
    finding = PipelineFinding(way="one batch", sink="", error="StepError: it failed")
    assert (finding.wrong, str(finding)) == (True, "one batch: StepError: it failed")


@pytest.mark.parametrize(
    ("given", "options", "told"),
    [
        (rows(2), {"ways": ["twice"]}, "a way must be one of again, restarted, "),
        (rows(2), {"batches": 0}, "batches must be at least 1, not 0"),
        (None, {}, "rows must be given for each source, and for no other: file"),
        ({"orders": []}, {}, "rows must be given for each source, and for no other: file, orders"),
    ],
)
def test_a_check_without_meaning_should_be_refused(given, options, told):
    with pytest.raises(UserError, match=told):
        check_pipeline(read("wrong").to_print().build(), given, **options)


def test_the_command_should_take_records_from_files_of_the_source(tmp_path, monkeypatch, driver):
    records = tmp_path / "in.jsonl"
    records.write_text("".join(json.dumps(row) + "\n" for row in rows(4)))
    (tmp_path / "tortured_pipelines.py").write_text(
        "from rs_assets import StreamBuilder\n"
        f"read = StreamBuilder.data_stream('shop', 'kept').from_file({str(records)!r}, schema={FIELDS!r})\n"
        "kept = read.filter('n > 0').to_print(name='out').build()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def tortured(*words):
        return CliRunner().invoke(main, ["torture", "kept", "-m", "tortured_pipelines", *words])

    done = tortured("--batches", "2")
    assert done.exit_code == 0, done.output
    assert done.output == "rows: out 3; the same again, restarted, other batches, one batch, other order\n"
    refused = tortured("--rows", str(tmp_path / "none.jsonl"))
    assert (refused.exit_code, "cannot be read" in refused.output) == (1, True)


def test_the_command_should_ask_for_the_source_of_a_file(tmp_path, monkeypatch):
    (tmp_path / "two_pipelines.py").write_text(
        "from rs_assets import StreamBuilder\n"
        "begin = StreamBuilder.data_stream('shop', 'both')\n"
        "one, two = (begin.from_file(f'{name}.jsonl', schema='n int', name=name) for name in ('one', 'two'))\n"
        "both = one.union(two).to_print().build()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    done = CliRunner().invoke(main, ["torture", "both", "-m", "two_pipelines", "--rows", "in.jsonl"])
    assert (done.exit_code, "write --rows one=in.jsonl" in done.output) == (1, True)
