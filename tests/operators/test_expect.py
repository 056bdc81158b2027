"""expect: rows that do not meet a condition are counted, and passed on, left out, kept as dead letters, or refused."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from rs_assets import StreamBuilder, Time, TumblingWindow, column
from rs_assets.catalog.catalog import Catalog
from rs_assets.errors import BadRecordError, EngineError, TopologyError, UnknownFieldError
from rs_assets.runtime.record.bookkeeping import Bookkeeper
from rs_assets.testing import PipelineDriver
from tests.operators.driving import cut

SCHEMA = "page string, ms bigint"
ROWS = [{"page": "/a", "ms": 5}, {"page": "/b", "ms": -1}, {"page": "/c", "ms": None}]
TIMED = "key string, n bigint, ts timestamp"
START = datetime(2026, 11, 24, 12, tzinfo=UTC)


def letters_in(home):
    path = home / "catalog" / "dead_letters"
    if not path.exists():
        return []
    letters = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted((row["step"], row["line"], row["reason"], json.loads(row["record"] or "{}")) for row in letters)


def timed(*numbers, key="a", second=0):
    return [{"key": key, "n": n, "ts": START + timedelta(seconds=second + place)} for place, n in enumerate(numbers)]


def windows(stream):
    return stream.window(TumblingWindow.of(Time.seconds(10), "ts"), name="w").group_by("key").sum("n", "n")


@pytest.mark.parametrize(
    ("on_fail", "kept", "letters"),
    [
        ("warn", ["/a", "/b", "/c"], []),
        ("skip", ["/a"], []),
        ("dead_letter", ["/a"], [("took_time", n, "expected ms >= 0", ROWS[n - 1]) for n in (2, 3)]),
    ],
)
def test_expect_counts_false_and_null_and_follows_its_policy(source, driver, tmp_path, on_fail, kept, letters):
    stream = source(SCHEMA).expect("ms >= 0", on_fail=on_fail, name="took_time")
    with PipelineDriver(stream.to_print().build(), spark=driver, home=tmp_path) as running:
        running.push(ROWS)
        running.step()
        assert [row["page"] for row in running.take()] == kept
        report = running.report()
        assert report.expectations == {"took_time": (3, 2)}
        assert report.warnings == (f"2 of 3 rows did not meet the expectation 'took_time' ({on_fail=})",)
        assert (report.rows_in, report.rows_dead) == (3, 0)
    assert letters_in(tmp_path) == letters
    (row,) = Catalog(tmp_path / "catalog").rows("expectations", pipeline="test.operator")
    assert (row["step"], row["batch_id"], row["rows"], row["failed"]) == ("took_time", 0, 3, 2)
    assert row["condition"] == "ms >= 0"


def test_expect_under_fail_ends_the_run_before_the_batch_is_committed(source, driver, tmp_path):
    stream = source(SCHEMA).expect("ms >= 0", on_fail="fail", name="took_time")
    with PipelineDriver(stream.to_print().build(), spark=driver, home=tmp_path) as running:
        running.push(ROWS[:1])
        running.step()
        running.push(ROWS)
        with pytest.raises(BadRecordError, match=r"(?s)expected ms >= 0.*choose on_fail='warn'") as caught:
            running.step()
        assert running.take() == ROWS[:1]
    assert (caught.value.facts["step"], caught.value.facts["line"]) == ("took_time", 3)


def test_expect_under_fail_names_its_record_beside_a_dead_letter(source, driver):
    stream = source(SCHEMA).expect("page <> '/b'", on_fail="dead_letter").expect("ms IS NOT NULL", on_fail="fail")
    with PipelineDriver(stream.to_print().build(), spark=driver) as running:
        running.push(ROWS)
        with pytest.raises(BadRecordError, match="expected ms IS NOT NULL") as caught:
            running.step()
    assert caught.value.facts["line"] == 3


@pytest.mark.parametrize(
    ("on_fail", "kept", "letters"),
    [
        ("warn", [("a", 6), ("b", -1)], []),
        ("skip", [("a", 6)], []),
        ("dead_letter", [("a", 6)], [("positive", None, "expected n > 0", "b")]),
    ],
)
def test_expect_after_a_window_judges_its_rows(source, driver, tmp_path, on_fail, kept, letters):
    stream = windows(source(TIMED)).to_data_stream().expect("n > 0", on_fail=on_fail, name="positive")
    with PipelineDriver(stream.to_print().build(), spark=driver, home=tmp_path) as running:
        running.push(timed(1, 2, 3) + timed(-1, key="b"))
        running.step()
        running.finish()
        assert sorted((row["key"], row["n"]) for row in running.take()) == kept
        report = running.report()
        assert (report.expectations, report.rows_refused) == ({"positive": (2, 1)}, len(letters))
    found = [(step, line, reason, record["key"]) for step, line, reason, record in letters_in(tmp_path)]
    assert found == letters


def test_expect_under_fail_after_a_window_shows_the_row(source, driver):
    stream = windows(source(TIMED)).to_data_stream().expect("n > 0", on_fail="fail", name="positive")
    with PipelineDriver(stream.to_print().build(), spark=driver) as running:
        running.push(timed(-5))
        running.step()
        with pytest.raises(BadRecordError, match="expected n > 0: 1 of 1 row failed") as caught:
            running.finish()
    assert (caught.value.facts["step"], json.loads(caught.value.facts["record"])["n"]) == ("positive", -5)


@pytest.mark.parametrize("on_fail", ["warn", "skip", "fail"])
def test_expect_between_two_windows_counts_the_rows_of_the_first(source, driver, on_fail):
    first = windows(source(TIMED)).to_data_stream().expect("n > 0", on_fail=on_fail, name="positive")
    second = first.window(TumblingWindow.of(Time.seconds(60), "end_time"), name="minutes").sum("n", "n")
    with PipelineDriver(second.to_data_stream().to_print().build(), spark=driver) as running:
        running.push(timed(7, key="b") + timed(-2) * (on_fail != "fail"))
        running.step()
        running.finish()
        assert [row["n"] for row in running.take()] == [5 if on_fail == "warn" else 7]
        assert running.report().expectations["positive"] == ((1, 0) if on_fail == "fail" else (2, 1))


def test_expectations_of_branches_are_counted_apart(driver, tmp_path):
    stream = StreamBuilder.data_stream("test", "branches").from_file("in.jsonl", schema=SCHEMA)
    checked = stream.expect("page IS NOT NULL", name="has_page")
    checked.filter("ms < 100").expect("ms >= 0", on_fail="dead_letter", name="took_time").to_print(name="short")
    built = checked.expect("ms IS NOT NULL", on_fail="skip", name="has_ms").to_print(name="long").build()
    with PipelineDriver(built, spark=driver, home=tmp_path) as running:
        running.push([*ROWS, {"page": None, "ms": 700}])
        running.step()
        assert [row["ms"] for row in running.take("short")] == [5]
        assert [row["ms"] for row in running.take("long")] == [5, -1, 700]
        assert running.report().expectations == {"has_page": (4, 1), "took_time": (2, 1), "has_ms": (4, 1)}
    assert [(step, line) for step, line, _, _ in letters_in(tmp_path)] == [("took_time", 2)]


def test_an_expectation_that_two_queries_share_is_counted_and_written_once(source, driver, tmp_path):
    checked = source(TIMED).expect("n >= 0", on_fail="dead_letter", name="counted")
    checked.to_print(name="rows")
    built = windows(checked).to_data_stream().to_print(name="sums").build()
    with PipelineDriver(built, spark=driver, home=tmp_path) as running:
        running.push(timed(1, -1, 2))
        running.step()
        running.finish()
        assert [row["n"] for row in running.take("rows")] == [1, 2]
        assert [row["n"] for row in running.take("sums")] == [3]
        report = running.report()
        assert (len(report.queries), report.expectations) == (2, {"counted": (3, 1)})
    assert [(step, line) for step, line, _, _ in letters_in(tmp_path)] == [("counted", 2)]


@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_counts_and_rows_are_those_of_a_plain_model_for_any_cut_and_restart(driver, tmp_path_factory, data):
    rows = [
        {"key": data.draw(st.sampled_from("ab")), "n": n, "ts": START + timedelta(seconds=place)}
        for place, n in enumerate(
            data.draw(st.lists(st.one_of(st.none(), st.integers(-5, 5)), min_size=8, max_size=30))
        )
    ]
    stream = StreamBuilder.data_stream("test", "model").from_file("in.jsonl", schema=TIMED)
    stream = stream.expect("n >= 0", on_fail="dead_letter", name="before").expect("n < 5", name="seen")
    stream = windows(stream).to_data_stream().expect("n % 2 = 0", on_fail="skip", name="after")
    home, judged = tmp_path_factory.mktemp("home"), dict.fromkeys(("before", "seen", "after"), (0, 0))
    with PipelineDriver(stream.to_print().build(), spark=driver, home=home) as running:

        def count():
            for name, (came, failed) in running.report().expectations.items():
                judged[name] = judged[name][0] + came, judged[name][1] + failed

        for batch in cut(data, rows):
            running.push(batch)
            running.step()
            if data.draw(st.booleans()):
                count()
                running.restart()
        running.finish()
        count()
        found = sorted((row["key"], row["start_time"], row["n"]) for row in running.take())
    good = [row for row in rows if row["n"] is not None and row["n"] >= 0]
    sums = {}
    for row in good:
        start = START + timedelta(seconds=(row["ts"] - START).seconds // 10 * 10)
        sums[row["key"], start] = sums.get((row["key"], start), 0) + row["n"]
    odd = sum(total % 2 for total in sums.values())
    assert found == sorted((*key, total) for key, total in sums.items() if total % 2 == 0)
    assert judged == {
        "before": (len(rows), len(rows) - len(good)),
        "seen": (len(good), sum(row["n"] == 5 for row in good)),
        "after": (len(sums), odd),
    }
    assert len(letters_in(home)) == len(rows) - len(good)


def test_expect_takes_a_column_and_works_in_rows_of_tests(source, compute):
    by_column = column(lambda: F.col("ms") >= 0)
    assert compute(source(SCHEMA).expect(by_column, on_fail="skip"), ROWS) == ROWS[:1]
    assert compute(source(SCHEMA).expect(by_column), ROWS) == ROWS
    with pytest.raises(BadRecordError, match="a row does not meet an expectation"):
        compute(source(SCHEMA).expect(by_column, on_fail="fail"), ROWS)


def between(stream):
    first = windows(stream).to_data_stream().expect("n > 0", on_fail="dead_letter", name="positive")
    second = first.window(TumblingWindow.of(Time.seconds(60), "end_time"), name="minutes").sum("n", "n")
    return second.to_data_stream()


REFUSED = {
    "policy": (lambda s: s.expect("n > 0", on_fail="drop"), TopologyError, "on_fail='drop' is not a policy"),
    "function": (lambda s: s.expect(lambda row: row["n"] > 0), TopologyError, "not a Python function"),
    "number": (lambda s: s.expect("n"), TopologyError, "is a bigint, not true or false"),
    "field": (lambda s: s.expect("size > 0"), UnknownFieldError, "size"),
    "share": (lambda s: s.expect("n > 0", tolerated=1), TopologyError, "must be a share of the rows"),
    "state": (between, TopologyError, "between two steps with state"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_expect_refuses_what_it_cannot_judge(source, kind):
    make, error, why = REFUSED[kind]
    with pytest.raises(error, match=why):
        make(source(TIMED)).to_print().build()


@pytest.mark.parametrize(("on_fail", "goes_on"), [("warn", True), ("fail", True), ("skip", False)])
def test_an_expectation_that_removes_no_row_may_come_before_existing_state(driver, tmp_path, on_fail, goes_on):
    stream = StreamBuilder.data_stream("test", "added").from_file("in.jsonl", schema=TIMED)
    with PipelineDriver(windows(stream).to_data_stream().to_print().build(), spark=driver, home=tmp_path) as running:
        running.push(timed(1, 2))
        running.step()
    stream = StreamBuilder.data_stream("test", "added").from_file("in.jsonl", schema=TIMED)
    changed = windows(stream.expect("n > 0", on_fail=on_fail)).to_data_stream().to_print().build()
    if goes_on:
        with PipelineDriver(changed, spark=driver, home=tmp_path) as running:
            running.push(timed(4, second=2))
            running.finish()
            assert [row["n"] for row in running.take()] == [7]
        return
    with (
        pytest.raises(Exception, match="new generation|--new-generation"),
        PipelineDriver(changed, spark=driver, home=tmp_path),
    ):
        pass


def places(stream, on_fail):
    """The expectation `n > 0` upstream of a window, downstream of it, and between two."""
    yield windows(stream("up").expect("n > 0", on_fail=on_fail, name="e")).to_data_stream()
    yield windows(stream("down")).to_data_stream().expect("n > 0", on_fail=on_fail, name="e")
    first = windows(stream("between")).to_data_stream().expect("n > 0", on_fail=on_fail, name="e")
    second = first.window(TumblingWindow.of(Time.seconds(60), "end_time"), name="minutes").sum("n", "n")
    yield second.to_data_stream()


@pytest.mark.parametrize("place", range(3), ids=["up", "down", "between"])
def test_the_remedy_of_a_row_that_ends_the_run_lets_it_go_on(tmp_path, options, place):
    file = tmp_path / "in.jsonl"
    rows = timed(-1) + timed(3, key="b", second=1)
    file.write_text("".join(json.dumps(row | {"ts": row["ts"].isoformat()}) + "\n" for row in rows))

    def pipeline(on_fail):
        def stream(job):
            return StreamBuilder.data_stream("test", job).from_file(str(file), schema=TIMED)

        return [*places(stream, on_fail)][place].to_delta("sums").build()

    with pytest.raises(BadRecordError) as caught:
        pipeline("fail").run(options, finish=True)
    assert "choose on_fail='warn', 'skip'" in caught.value.remedy
    assert caught.value.facts["step"] == "e"
    report = pipeline("warn").run(options, finish=True)
    assert report.expectations == {"e": (2, 1)}
    assert sum(report.table("sums")["n"].to_pylist()) == 2


def lose_commit(monkeypatch, options, job):
    """Spark's log has lost the end of a batch that all others know, as after the loss of a machine."""
    job.run(options)
    (commits,) = options.home.job("test", "again").glob("g0001/*/checkpoint/commits")
    for file in ("0", ".0.crc"):
        (commits / file).unlink(missing_ok=True)


def crash(monkeypatch, options, job):
    """The sinks have the batch, and neither Spark nor the catalog knows."""
    with monkeypatch.context() as patched:
        patched.setattr(Bookkeeper, "after", lambda *_, **__: 1 / 0)
        with pytest.raises(EngineError, match="division by zero"):
            job.run(options)


@pytest.mark.parametrize(("end", "counted"), [(lose_commit, 0), (crash, 1)])
def test_rows_of_a_batch_that_comes_again_are_counted_once(monkeypatch, tmp_path, options, end, counted):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS) + '{"ms": "x"}\n')
    stream = StreamBuilder.data_stream("test", "again").from_file(folder, schema=SCHEMA, bad_records="dead_letter")
    checked = stream.expect("page IS NOT NULL", name="has_page").expect("ms >= 0", name="has_time")
    checked.filter("ms < 100").expect("ms >= 0", on_fail="skip", name="took_time").to_delta("short")
    job = checked.to_delta("long").build()
    end(monkeypatch, options, job)
    (folder / "2.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    report = job.run(options)
    catalog = Catalog(options.home.catalog)
    rows = [(row["step"], row["batch_id"], row["rows"], row["failed"]) for row in catalog.rows("expectations")]
    first = [("has_page", 0, 3, 0), ("has_time", 0, 3, 2), ("took_time", 0, 2, 1)]
    assert sorted(rows) == sorted([*first, *((step, 1, 1, 0) for step, *_ in first)])
    messages = [(row["query"], row["batch_id"], row["number"]) for row in catalog.rows("system_messages")]
    assert len(messages) == len({*messages})
    assert (report.rows_in, report.rows_dead, len(letters_in(tmp_path / "rs"))) == (1 + 4 * counted, counted, 1)
    assert report.expectations == {
        "has_page": (1 + 3 * counted, 0),
        "has_time": (1 + 3 * counted, 2 * counted),
        "took_time": (1 + 2 * counted, counted),
    }
