"""A pipeline in several ways: what no correct one has, what depends on batches and order, and the step at fault."""

import json
import random

import pytest
from click.testing import CliRunner

from rs_assets import GlobalWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.cli.checks.torture import _rows
from rs_assets.cli.main import main
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.nodes import KafkaSink
from rs_assets.errors import ConfigurationError, UserError
from rs_assets.testing import check_pipeline
from rs_assets.testing import pipeline as checked
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


def test_a_field_may_be_left_out_by_its_name_alone(driver):
    drawn = read("left_out").with_fields(kn="rand()").to_print(name="out").build()
    assert check_pipeline(drawn, rows(6), ways=["again"], ignore="k", spark=driver).findings
    assert not check_pipeline(drawn, rows(6), ways=["again"], ignore="kn", spark=driver).findings


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


SEEN = {}


def first_seen(row):
    return {**row, "n": SEEN.setdefault(row["k"], row["n"])}


def test_a_function_that_keeps_something_in_its_process_should_be_found(driver):
    kept = read("kept").map(first_seen, schema=FIELDS, name="first")
    found = check_pipeline(kept.to_print(name="out").build(), rows(8), ways=["again", "restarted"], spark=driver)
    assert [finding.way for finding in found.wrong] == ["restarted"]


def end_of(sink, *batches):
    """The rows that are there after batches."""
    return sorted(checked._compared(sink, batches, whole=False).elements())


def test_the_newest_row_of_a_key_should_be_compared_whenever_it_came():
    sink = DeltaSink(name="out", inputs=("a",), table="t", mode="upsert", keys=("k",), order_by=("v",))
    newest, older, none = ({"k": "a", "v": v} for v in (2, 1, None))
    expected = ["{'k': 'a', 'v': 2}"]
    assert end_of(sink, [newest], [older], [none]) == end_of(sink, [older, newest, none]) == expected
    nan = {"k": "a", "v": float("nan")}
    assert end_of(sink, [nan], [newest]) == end_of(sink, [nan, newest]) == ["{'k': 'a', 'v': nan}"]


def test_a_row_should_win_over_its_deletion_in_one_batch_without_an_order():
    sink = DeltaSink(name="out", inputs=("a",), table="t", mode="upsert", keys=("k",), deletes="gone")
    row, gone = ({"k": "a", "gone": gone} for gone in (False, True))
    assert end_of(sink, [row, gone]) == end_of(sink, [gone], [row]) == ["{'gone': False, 'k': 'a'}"]
    assert end_of(sink, [row], [gone]) == []


def test_the_last_windows_of_a_complete_output_should_be_compared():
    sink = DeltaSink(name="out", inputs=("a",), table="t", mode="complete")
    one, two = ({"k": "a", "n": n} for n in (1, 2))
    assert end_of(sink, [one], [two], []) == end_of(sink, [two]) == ["{'k': 'a', 'n': 2}"]


def test_each_record_of_a_topic_should_be_compared_also_with_keys():
    cluster = KafkaCluster.of("localhost:9092")
    sink = KafkaSink(name="out", inputs=("a",), cluster=cluster, topic="t", keys=("k",))
    assert len(end_of(sink, [{"k": "a", "n": 1}], [{"k": "a", "n": 2}])) == 2


def test_sums_of_floating_point_numbers_should_not_depend_on_their_order():
    sink = DeltaSink(name="out", inputs=("a",), table="t")
    assert end_of(sink, [{"total": 0.1 + 0.2, "parts": [0.0]}]) == end_of(sink, [{"total": 0.3, "parts": [-0.0]}])
    assert end_of(sink, [{"total": 0.3}]) != end_of(sink, [{"total": 0.300001}])


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


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"n": 1', "line 3 of in.jsonl cannot be read: Expecting ',' delimiter at column 8"),
        ("[1]", "line 3 of in.jsonl cannot be read: [1] is not an object"),
    ],
)
def test_the_command_should_name_the_line_that_is_no_object(tmp_path, monkeypatch, line, why):
    (tmp_path / "one_pipeline.py").write_text(
        "from rs_assets import StreamBuilder\n"
        "begin = StreamBuilder.data_stream('shop', 'lines')\n"
        "lines = begin.from_file('in.jsonl', schema='n int').to_print().build()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text('{"n": 1}\n\n' + line + "\n")
    done = CliRunner().invoke(main, ["torture", "lines", "-m", "one_pipeline", "--rows", "in.jsonl"])
    assert (done.exit_code, why in done.output) == (1, True), done.output
    assert "give a file with a JSON object in each line" in done.output


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


def test_a_source_whose_records_must_be_given_should_be_named_with_its_option(tmp_path, monkeypatch, driver):
    (tmp_path / "topic_pipelines.py").write_text(
        "from rs_assets import StreamBuilder\n"
        "begin = StreamBuilder.data_stream('shop', 'topic')\n"
        "read = begin.from_kafka('localhost:1', topic='orders', schema='n int', name='orders')\n"
        "topic = read.filter('n > 1').to_print(name='out').build()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def tortured(*words):
        return CliRunner().invoke(main, ["torture", "topic", "-m", "topic_pipelines", "--batches", "1", *words])

    refused = tortured()
    assert (refused.exit_code, "--rows orders=records.jsonl" in refused.output) == (1, True)
    (tmp_path / "records.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    done = tortured("--rows", f"orders={tmp_path / 'records.jsonl'}")
    assert (done.exit_code, done.output.splitlines()[0][:11]) == (0, "rows: out 1"), done.output


def test_files_of_the_command_should_be_found_by_source_and_path(tmp_path):
    folder = tmp_path / "day=2026-01-05"
    folder.mkdir()
    record = {"k": "a\u2028b\x85"}
    file = folder / "rows of now.jsonl"
    file.write_text(json.dumps(record, ensure_ascii=False) + "\r\n")
    assert _rows([str(file)], ["one"]) == _rows([f"one={file}"], ["one"]) == {"one": [record]}
    named = [f"two={file}", f"one={file}", f"two={file}"]
    assert _rows(named, ["one", "two"]) == {"one": [record], "two": [record, record]}
    file.write_text("[1]\n")
    with pytest.raises(ConfigurationError, match=r"\[1\] is not an object"):
        _rows([str(file)], ["one"])
