"""Joins before and behind other steps with state in one query, against the reference models."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import Interval, StreamBuilder, Time, TumblingWindow
from rs_assets.testing import PipelineDriver
from tests.operators.join_model import EPOCH, AsOf, Joined, Watermark
from tests.operators.model import at, sliced

SCHEMA = "k string, {} bigint, ts timestamp"
WITHIN = Interval.of(before=Time.seconds(3), after=Time.seconds(8))


def streams(*values):
    job = StreamBuilder.data_stream("test", "join_chain")
    return [job.from_file(f"{v}.jsonl", schema=SCHEMA.format(v), name=v, bad_records="skip") for v in values]


def rows(data, value, number=30):
    """Rows of 60 s, out of order by little, each cut into three batches."""
    keys = data.draw(st.lists(st.sampled_from(["a", "b", None]), min_size=number, max_size=number))
    made = [{"k": k, value: n, "ts": at(2 * n)} for n, k in enumerate(keys)]
    made = [row for first in range(0, number, 5) for row in data.draw(st.permutations(made[first : first + 5]))]
    one, two = sorted(data.draw(st.sets(st.integers(1, number - 1), min_size=2, max_size=2)))
    return [made[:one], made[one:two], made[two:]]


def driven(stream, driver, batches, *, restart_after=()):
    """What comes out, and how many rows were late; `batches` have for each source its rows."""
    late = 0
    with PipelineDriver(stream.to_print().build(), spark=driver) as running:
        for number, batch in enumerate(batches):
            for source, pushed in batch.items():
                running.push(pushed, source)
            running.step()
            if number in restart_after:
                late += running.report().rows_late
                running.restart()
        running.finish()
        assert running.report().rows_open == 0
        assert [query.query for query in running.report().queries] == [stream.step]
        return running.take(), late + running.report().rows_late


def sums(made, size=20):
    groups = sliced([{"key": k, "ts": ts, "n": n} for k, ts, n in made], size=size, slide=size)
    return sorted((str(k), start, len(of), sum(row["n"] for row in of)) for (k, start, _), of in groups.items())


def sums_of(taken):
    return sorted((str(row["k"]), row["start_time"], row["rows"], row["n"]) for row in taken)


@pytest.mark.parametrize("processor", [False, True], ids=["spark", "processor"])
@settings(max_examples=1, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_window_behind_a_join_counts_every_row_of_it(driver, processor, data):
    how = data.draw(st.sampled_from(["left", "inner"]))
    left, right = streams("v", "w")
    delays = (10, 10)
    both = left.join(right, on="k", within=WITHIN, how=how, time_field="ts", prefix="r_", water_mark=Time.seconds(10),
                     processor=processor)  # fmt: skip
    window = both.window(TumblingWindow.of(Time.seconds(20), "ts"), name="sums").group_by("k").count("rows")
    batches = [dict(zip("vw", pair, strict=True)) for pair in zip(rows(data, "v"), rows(data, "w"), strict=True)]
    after = data.draw(st.sets(st.sampled_from(range(3))))
    taken, late = driven(window.sum("v", "n").to_data_stream(), driver, batches, restart_after=after)
    model = Joined(WITHIN, how)
    kept, were_late, _ = model.accepted([(b["v"], b["w"]) for b in batches], delays, after)
    assert late == were_late
    assert sums_of(taken) == sums([(one["k"], one["ts"], one["v"]) for one, _, _ in model.rows(kept)])


@pytest.mark.long
@pytest.mark.parametrize("by", [(False, False), (True, False), (False, True), (True, True)], ids=str)
@settings(max_examples=1, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_three_streams_are_two_joins_and_the_third_has_late_rows_of_its_own(driver, by, data):
    a, b, c = streams("v", "w", "x")
    first = a.join(b, on="k", within=WITHIN, time_field="ts", prefix="b_", name="first", processor=by[0])
    stream = first.join(c, on="k", within=Time.seconds(4), how="full", time_field="ts", prefix="c_", name="second",
                        processor=by[1])  # fmt: skip
    batches = [dict(zip("vwx", each, strict=True)) for each in zip(*(rows(data, v) for v in "vwx"), strict=True)]
    taken, late = driven(stream, driver, batches)
    # Rows are judged by the watermark of all three; those of the third by one that lies back by the first's interval.
    # Spark hands on a watermark that lies a millisecond further back than a processor's rows do.
    back = Time.seconds(8 if by[0] else 8.001)
    watermark, ones, twos, threes, were_late = Watermark((0, 0, 0)), [], [], [], 0
    for batch in batches:
        held = max(EPOCH, watermark.value - back)
        passed = {"v": watermark.value, "w": watermark.value, "x": held}
        for value, kept in (("v", ones), ("w", twos), ("x", threes)):
            came = [row for row in batch[value] if row["ts"] > passed[value]]
            were_late += len(batch[value]) - len(came)
            kept.extend(came)
        watermark.after(tuple(batch.values()))
    pairs = Joined(WITHIN, "inner").rows(([(row, None) for row in ones], [(row, None) for row in twos]))
    pairs = [{**one, "w": two["w"]} for one, two, _ in pairs]
    made = Joined(Time.seconds(4), "full").rows(([(row, None) for row in pairs], [(row, None) for row in threes]))
    assert late == were_late
    assert sorted((str(row["v"]), str(row["b_w"]), str(row["c_x"])) for row in taken) == sorted(
        (str(one and one["v"]), str(one and one["w"]), str(two and two["x"])) for one, two, _ in made
    )


@settings(max_examples=1, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_windows_of_two_streams_are_joined_and_distinct_follows(driver, data):
    left, right = streams("v", "w")
    tens = [
        stream.window(TumblingWindow.of(Time.seconds(10), "ts"), name=f"tens_{v}")
        .group_by("k").count("n").water_mark(Time.seconds(30)).to_data_stream()
        for stream, v in ((left, "v"), (right, "w"))
    ]  # fmt: skip
    how = data.draw(st.sampled_from(["full", "inner", "left"]))
    both = tens[0].join(tens[1], on="k", within=Time.seconds(0), how=how, time_field="start_time", prefix="r_")
    # Rows of the right side alone lack the time of the left one.
    once = how != "full"
    stream = both.distinct("k", "start_time", within=Time.hours(1), time_field="start_time") if once else both
    batches = [dict(zip("vw", pair, strict=True)) for pair in zip(rows(data, "v"), rows(data, "w"), strict=True)]
    taken, late = driven(stream, driver, batches, restart_after={1})
    counts = [
        [({"k": k, "ts": start, "n": len(of)}, None) for (k, start, _), of in groups.items()]
        for groups in (
            sliced([{**row, "key": row["k"]} for batch in batches for row in batch[v]], size=10, slide=10) for v in "vw"
        )
    ]
    made = Joined(Time.seconds(0), how).rows(counts)
    assert late == 0
    assert sorted((str(row["k"]), str(row["n"]), str(row["r_n"]), str(row["r_k"])) for row in taken) == sorted(
        (str(one and one["k"]), str(one and one["n"]), str(two and two["n"]), str(two and two["k"]))
        for one, two, _ in made
    )


@pytest.mark.long
@pytest.mark.parametrize("tolerance", [None, 6])
@settings(max_examples=1, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_joins_as_of_a_time_follow_one_another_and_windows_follow_them(driver, tolerance, data):
    a, b, c = streams("v", "w", "x")
    within = {"tolerance": None if tolerance is None else Time.seconds(tolerance)}
    within |= {"on": "k", "time_field": "ts", "water_mark": Time.seconds(10)}
    first = a.asof_join(b, prefix="b_", name="first", **within)
    second = first.asof_join(c, prefix="c_", name="second", **within)
    kept = second.with_fields(n="coalesce(b_w, -1) * 100 + coalesce(c_x, -1)")
    window = kept.window(TumblingWindow.of(Time.seconds(20), "ts"), name="sums").group_by("k").count("rows")
    batches = [dict(zip("vwx", each, strict=True)) for each in zip(*(rows(data, v) for v in "vwx"), strict=True)]
    taken, late = driven(window.sum("n").to_data_stream(), driver, batches, restart_after={1})
    ones, twos, threes = ([(row, None) for batch in batches for row in batch[v]] for v in "vwx")
    model = AsOf("left", tolerance)
    made = [({**one, "n": 100 * (two["w"] if two else -1)}, None) for one, two, _ in model.rows((ones, twos))]
    model = AsOf("left", tolerance, by="x")
    both = [(one["k"], one["ts"], one["n"] + (two["x"] if two else -1)) for one, two, _ in model.rows((made, threes))]
    assert late == 0
    assert sums_of(taken) == sums(both)


def test_windows_are_joined_by_a_processor_with_rows_of_a_source(driver):
    """And early: nothing with state may follow then, but windows may stand before."""
    left, right = streams("v", "w")
    tens = left.window(TumblingWindow.of(Time.seconds(10), "ts"), name="tens").group_by("k").count("n")
    counted = tens.water_mark(Time.seconds(5)).to_data_stream()
    both = counted.join(right, on="k", within=Interval.of(before=Time.seconds(10)), time_field=("end_time", "ts"),
                        how="left", prefix="r_", early=True)  # fmt: skip
    batches = [
        {v: [{"k": "ab"[s % 2], v: s, "ts": at(s)} for s in range(first, first + 20) if v == "v" or s % 7 == 0]
         for v in "vw"}
        for first in (0, 20, 40)
    ]  # fmt: skip
    taken, late = driven(both, driver, batches, restart_after={0})
    made = [({"k": k, "ts": at(end), "n": 5}, None) for end in range(10, 61, 10) for k in "ab"]
    others = [(row, None) for batch in batches for row in batch["w"]]
    pairs = Joined(Interval.of(before=Time.seconds(10)), "left").rows((made, others))
    standing = Counter((row["k"], row["end_time"], row["r_w"]) for row in taken if not row["retracted"])
    standing.subtract((row["k"], row["end_time"], row["r_w"]) for row in taken if row["retracted"])
    assert late == 0
    assert +standing == Counter((one["k"], one["ts"], two and two["w"]) for one, two, _ in pairs)


@pytest.mark.canary
def test_a_bad_record_before_windows_that_are_joined_at_once_is_a_dead_letter(options, tmp_path):
    (tmp_path / "v.jsonl").write_text('{"k": "a", "v": 1, "ts": "2026-01-05 10:00:01"}\nno record\n')
    (tmp_path / "w.jsonl").write_text('{"k": "a", "w": 2, "at": "2026-01-05 10:00:12"}\n')
    job = StreamBuilder.data_stream("test", "at_once")
    left = job.from_file(tmp_path / "v.jsonl", schema=SCHEMA.format("v"), bad_records="dead_letter", name="v")
    right = job.from_file(tmp_path / "w.jsonl", schema="k string, w bigint, at timestamp", name="w")
    tens = left.window(TumblingWindow.of(Time.seconds(10), "ts"), name="tens").group_by("k").count("n")
    both = tens.to_data_stream().join(right, on="k", within=Time.seconds(5), time_field=("end_time", "at"), prefix="r_")
    report = both.to_delta("both").build().run(options, finish=True)
    assert (report.rows_dead, report.rows_out) == (1, 1)


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_windows_that_close_in_one_batch_are_kept_by_whether_they_have_a_partner(driver, how):
    """Spark's own semi join finds none of them: it has to be a processor's."""
    counted = [
        stream.window(TumblingWindow.of(Time.seconds(10), "ts"), name=f"tens_{v}")
        .group_by("k").count("n").to_data_stream()
        for stream, v in zip(streams("v", "w"), "vw", strict=True)
    ]  # fmt: skip
    both = counted[0].join(counted[1], on="k", within=Time.seconds(4), how=how, time_field="end_time", name="kept",
                           processor=how == "semi")  # fmt: skip
    batches = [
        {"v": [{"k": k, "v": 1, "ts": at(1)} for k in "ab"], "w": [{"k": "a", "w": 3, "ts": at(3)}]},
        {v: [{"k": "z", v: 4, "ts": at(90)}] for v in "vw"},
    ]  # fmt: skip
    taken, late = driven(both, driver, batches)
    assert (sorted(row["k"] for row in taken), late) == (["a", "z"] if how == "semi" else ["b"], 0)


def test_a_join_by_windows_is_followed_by_windows_of_its_start(driver):
    left, right = streams("v", "w")
    bound = TumblingWindow.of(Time.seconds(10))
    both = left.join(right, on="k", within=bound, time_field="ts", prefix="r_")
    window = both.window(TumblingWindow.of(Time.seconds(20), "start_time"), name="sums").group_by("k").count("rows")
    batches = [
        {v: [{"k": "ab"[s % 2], v: s, "ts": at(s)} for s in range(first, first + 25)] for v in "vw"}
        for first in (0, 25, 50)
    ]
    taken, late = driven(window.sum("v", "n").to_data_stream(), driver, batches)
    model = Joined(bound, "inner")
    kept, _, _ = model.accepted([(b["v"], b["w"]) for b in batches], (0, 0))
    assert late == 0
    assert sums_of(taken) == sums([(one["k"], place, one["v"]) for one, _, place in model.rows(kept)])


@pytest.mark.parametrize("shuffled", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_stream_read_twice_or_behind_a_durable_shuffle_is_joined_with_itself(driver, shuffled):
    [one] = streams("v")
    other = one.filter("v > 2").shuffle(1, strategy="delta") if shuffled else streams("v", "w")[1]
    if not shuffled:
        one, other = streams("v", "w")
        other = other.map("k", "w AS v", "ts")
    stream = one.join(other, on="k", within=Time.seconds(1), time_field="ts", prefix="r_", water_mark=Time.minutes(1))
    made = [{"k": "a", "v": n, "ts": at(n)} for n in range(6)]
    with PipelineDriver(stream.to_print().build(), spark=driver) as running:
        running.push(made, "v")
        if not shuffled:
            running.push([{"k": "a", "w": row["v"], "ts": row["ts"]} for row in made[3:]], "w")
        running.finish()
        assert sorted((row["v"], row["r_v"]) for row in running.take()) == [
            (n, m) for n in range(6) for m in (3, 4, 5) if abs(n - m) <= 1
        ]
