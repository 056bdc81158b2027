"""Stores and ProcessorTest: a processor without Spark."""

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from rs_assets import ListStore, MapStore, Processor, SessionStore, Time, ValueStore, VersionedStore, WindowStore
from rs_assets.errors import ConfigurationError, RsError, SchemaError, StepError
from rs_assets.testing import ProcessorTest

T0 = datetime(2026, 1, 5, 10, tzinfo=UTC)


def at(minutes):
    return T0 + timedelta(minutes=minutes)


class Does(Processor):
    """Calls the function of each row, and forwards what it returns."""

    value = ValueStore("n int, tags array<string>")
    entries = MapStore("sku string", "n int")
    pairs = MapStore("a int, b string", "n int")
    rows = ListStore("n int")
    windows = WindowStore("n int", retention=Time.minutes(10))
    sessions = SessionStore("n int", retention=Time.minutes(10))
    versions = VersionedStore("n int", retention=Time.minutes(10))

    def process(self, key, row, context):
        row["found"].append(row["do"](context))


def done(*steps, processor=Does):
    """What each of `steps`, functions of the context, returned."""
    test, found = ProcessorTest(processor, keys="k", schema="n int"), []
    test.pipe(*({"k": "a", "do": each, "found": found} for each in steps))
    return found


def test_a_value_store_keeps_a_record_and_no_reference_to_it():
    record = {"n": 1, "tags": ["a"]}
    assert done(
        lambda c: c.value.get(),
        lambda c: c.value.put(record),
        lambda c: record["tags"].append("b"),
        lambda c: c.value.get()["tags"].append("c"),
        lambda c: c.value.get(),
        lambda c: c.value.delete(),
        lambda c: c.value.get(),
    ) == [None, None, None, None, {"n": 1, "tags": ["a"]}, None, None]


def test_a_map_store_has_inner_keys_of_one_or_several_fields():
    assert done(
        lambda c: [c.entries.put(sku, {"n": n}) for n, sku in enumerate("cab")],
        lambda c: c.entries.items(),
        lambda c: c.entries.range("b", "c"),
        lambda c: c.entries.range("a", "b", reverse=True),
        lambda c: (len(c.entries), "a" in c.entries, "x" in c.entries, c.entries.get("x")),
        lambda c: c.entries.delete("a"),
        lambda c: c.entries.clear() or len(c.entries),
        lambda c: c.pairs.put({"b": "x", "a": 1}, {"n": 5}),
        lambda c: (c.pairs.get({"a": 1, "b": "x"}), c.pairs.items()),
    )[1:] == [
        [("c", {"n": 0}), ("a", {"n": 1}), ("b", {"n": 2})],
        [("b", {"n": 2}), ("c", {"n": 0})],
        [("b", {"n": 2}), ("a", {"n": 1})],
        (3, True, False, None),
        None,
        0,
        None,
        ({"n": 5}, [({"a": 1, "b": "x"}, {"n": 5})]),
    ]


def test_a_range_of_a_map_store_has_null_first_and_nan_last_and_may_have_no_limit():
    numbers = [2.0, math.nan, None, -1.0, math.inf]
    ranges = done(
        lambda c: [c.numbers.put(number, {"n": n}) for n, number in enumerate(numbers)],
        lambda c: [key for key, _ in c.numbers.range()],
        lambda c: [key for key, _ in c.numbers.range({"number": None}, -1.0)],
        lambda c: [key for key, _ in c.numbers.range(2.0, reverse=True)],
        lambda c: [key for key, _ in c.numbers.range(None, 1)],
        processor=Times,
    )[1:]
    assert repr(ranges) == "[[None, -1.0, 2.0, inf, nan], [None, -1.0], [nan, inf, 2.0], [None, -1.0]]"


def test_a_prefix_has_the_inner_keys_that_begin_so():
    assert done(
        lambda c: [c.entries.put(sku, {"n": 0}) for sku in ("pen", "cup", "pencil", "Pen")],
        lambda c: [key for key, _ in c.entries.prefix(begins="pen")],
        lambda c: [c.pairs.put({"a": a, "b": b}, {"n": 0}) for a, b in ((2, "x"), (1, "y"), (1, None), (1, "x"))],
        lambda c: [key["b"] for key, _ in c.pairs.prefix(1)],
        lambda c: [key["b"] for key, _ in c.pairs.prefix(1, begins="y")],
        lambda c: (len(c.pairs.prefix()), c.pairs.prefix(1, "x", begins="x")),
    )[1::2] == [["pen", "pencil"], [None, "x", "y"], (4, [])]


def test_a_list_store_keeps_the_order():
    assert done(
        lambda c: [c.rows.append({"n": n}) for n in (3, 1)],
        lambda c: c.rows.get(),
        lambda c: c.rows.put([*c.rows.get(), {"n": 2}]),
        lambda c: (len(c.rows), c.rows.clear(), c.rows.get()),
    )[1:] == [[{"n": 3}, {"n": 1}], None, (3, None, [])]


def test_times_of_another_zone_are_those_of_utc_as_in_later_batches():
    # An hour that comes twice: Python has such times equal to none of another zone.
    berlin = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    found = done(
        lambda c: c.windows.put(berlin, {"n": 1}),
        lambda c: c.windows.get(berlin.astimezone(UTC)),
        lambda c: [start.isoformat() for start, _ in c.windows.fetch(berlin, berlin)],
        lambda c: c.windows.delete(berlin.astimezone(UTC)) or len(c.windows),
    )
    assert found[1:] == [{"n": 1}, ["2026-10-25T00:30:00+00:00"], 0]


def test_a_window_store_forgets_windows_after_its_retention():
    assert done(
        lambda c: [c.windows.put(at(n), {"n": n}) for n in (4, 0, 5)],
        lambda c: c.windows.fetch(at(0), at(4)),
        lambda c: c.windows.put(at(10), {"n": 10}),
        lambda c: (c.windows.get(at(0)), c.windows.get(at(4)), len(c.windows)),
        lambda c: c.windows.put(at(0), {"n": 0}) or c.windows.get(at(0)),
        lambda c: c.windows.delete(at(4)) or len(c.windows),
    )[1:] == [[(at(0), {"n": 0}), (at(4), {"n": 4})], None, (None, {"n": 4}, 3), None, 2]


def test_a_session_store_finds_what_touches_an_interval():
    assert done(
        lambda c: [c.sessions.put(at(n), at(n + 2), {"n": n}) for n in (0, 4)],
        lambda c: c.sessions.find(at(2), at(3)),
        lambda c: c.sessions.find(at(2), at(4)),
        lambda c: c.sessions.delete(at(0), at(2)),
        lambda c: c.sessions.put(at(15), at(16), {"n": 15}) or c.sessions.find(at(0), at(99)),
    )[1:] == [
        [(at(0), at(2), {"n": 0})],
        [(at(0), at(2), {"n": 0}), (at(4), at(6), {"n": 4})],
        None,
        [(at(15), at(16), {"n": 15})],
    ]


def test_a_versioned_store_knows_what_was_valid_at_a_time():
    assert done(
        lambda c: [c.versions.put({"n": n}, at(n)) for n in (5, 1)],
        lambda c: [c.versions.get(at(n)) for n in (0, 1, 4, 5, 9)],
        lambda c: c.versions.delete(at(7)),
        lambda c: (c.versions.get(), c.versions.get(at(6))),
        lambda c: c.versions.put({"n": 20}, at(20)),
        # Replaced at 7, ten minutes or more before 20.
        lambda c: c.versions.versions(),
    )[1:] == [
        [None, {"n": 1}, {"n": 1}, {"n": 5}, {"n": 5}],
        None,
        (None, {"n": 5}),
        None,
        [(at(7), None), (at(20), {"n": 20})],
    ]


class Timed(Processor):
    """Has a repeated timer and one that fires once."""

    seen = ValueStore("n int")

    def process(self, key, row, context):
        context.seen.put({"n": row["n"]})
        context.schedule(Time.minutes(10), self.every)
        context.schedule_at(context.time + Time.minutes(15), self.once)
        if row["n"] < 0:
            context.cancel(self.every)

    def every(self, key, at, context):
        context.forward({"what": f"every {at:%H:%M} of {context.watermark and format(context.watermark, '%H:%M')}"})

    def once(self, key, at, context):
        context.forward({"what": f"once {at:%H:%M}, then {context.scheduled(self.once)}"})


TIMED = {"keys": "k", "schema": "what string"}


def what(test):
    return [row["what"] for row in test.forwarded()]


def test_repeated_timers_are_aligned_and_fire_once_for_what_was_missed():
    test = ProcessorTest(Timed, **TIMED, time_field="ts", water_mark=Time.minutes(1))
    test.pipe({"k": "a", "n": 1, "ts": "2026-01-05T10:03:00"})
    assert test.timers(k="a") == {"every": at(10), "once": at(18)}
    test.advance_stream_time("2026-01-05T10:10:59")
    assert what(test) == []
    test.advance_stream_time(at(11))
    assert what(test) == ["every 10:10 of 10:10"]
    test.advance_stream_time(at(46))
    assert what(test) == ["once 10:18, then None", "every 10:20 of 10:45"]
    test.pipe({"k": "a", "n": -1, "ts": "2026-01-05T10:47:00+00:00"})
    assert test.timers(k="a") == {"once": at(62)}
    test.finish()
    assert what(test) == ["once 11:02, then None"]


class Chained(Processor):
    """Has a timer that sets the next one, and one that sets itself for the same time."""

    def process(self, key, row, context):
        context.schedule_at(context.time + Time.minutes(5), self.next)
        context.schedule_at(context.time + Time.minutes(7), self.again)

    def next(self, key, at, context):
        context.forward({"what": f"{at:%H:%M}"})
        context.schedule_at(at + Time.minutes(5), self.next)

    def again(self, key, at, context):
        context.forward({"what": f"again {at:%H:%M}"})
        context.schedule_at(at, self.again)


@pytest.mark.parametrize("steps", [[16], [5, 6, 16], [11, 16]])
def test_a_timer_that_another_one_sets_fires_however_far_the_watermark_moves_at_once(steps):
    test = ProcessorTest(Chained, **TIMED, time_field="ts")
    test.pipe({"k": "a", "ts": T0})
    for minutes in steps:
        test.advance_stream_time(at(minutes))
    fired = what(test)
    assert [text for text in fired if "again" not in text] == ["10:05", "10:10", "10:15"]
    # Set for a time that has passed, it fires again when the watermark moves.
    assert fired.count("again 10:07") == len([minutes for minutes in steps if minutes >= 7])
    test.finish()
    assert what(test) == ["again 10:07", "10:20"]


@pytest.mark.parametrize("at", [None, "1969-12-31T23:59:59.999999Z"])
def test_an_event_time_that_a_run_refuses_is_refused(at):
    with pytest.raises(StepError, match="got a bad record: its event time is null or before 1970"):
        ProcessorTest(Timed, **TIMED, time_field="ts").pipe({"k": "a", "n": 1, "ts": at})


def test_the_watermark_has_milliseconds_and_begins_in_1970():
    class Watermarks(Timed):
        def process(self, key, row, context):
            super().process(key, row, context)
            context.forward({"what": str(context.watermark and context.watermark.microsecond)})

    test = ProcessorTest(Watermarks, **TIMED, time_field="ts", water_mark=Time.minutes(1))
    for at in ("1970-01-01T00:00:10Z", "2026-01-05T10:03:00.001999Z", "2026-01-05T10:03:00.002Z"):
        test.pipe({"k": "a", "n": -1, "ts": at})
    assert [text for text in what(test) if not text.startswith("once")] == ["None", "None", "1000"]


def test_timers_by_the_clock_go_by_the_clock():
    test = ProcessorTest(Timed, **TIMED, tick=Time.seconds(1))
    test.pipe({"k": "a", "n": 1})
    test.advance_wall_clock(Time.minutes(12))
    assert what(test) == ["every 00:10 of 00:12"]
    with pytest.raises(ConfigurationError, match="no event time"):
        test.advance_stream_time(0)
    with pytest.raises(ConfigurationError, match="does not go by the clock"):
        ProcessorTest(Timed, **TIMED, time_field="ts").advance_wall_clock(Time.seconds(1))


WRONG = [
    (lambda c: c.forward({"fund": 1}), RsError, "the field 'fund', which is not one of: n"),
    (lambda c: c.forward({"n": 1}, to="nowhere"), StepError, "has no output 'nowhere'"),
    (lambda c: c.forward({"n": 2**31}), StepError, "returned a record that does not fit its schema: n=2147483648"),
    (lambda c: c.value.put({"n": 2**31, "tags": None}), RsError, "n=2147483648 is not of type int"),
    (lambda c: c.entries.get(5), RsError, "sku=5 is not of type string"),
    (lambda c: c.value.put({"n": 1}), RsError, "the field 'tags' is missing"),
    (lambda c: c.pairs.get("a"), TypeError, "must return a dict"),
    (lambda c: c.scene, AttributeError, "has no store 'scene'; it has: value, entries"),
    (lambda c: c.schedule_at(T0, c.processor.process), StepError, "has no time, so it has no timers"),
]


@pytest.mark.parametrize(("how", "kind", "why"), WRONG)
def test_what_a_processor_may_not_do_is_said_where_it_does_it(how, kind, why):
    with pytest.raises(kind, match=why):
        done(how)


WRONG_TIMES = [
    (lambda self, c: c.schedule_at("noon", self.every), "which must be a datetime"),
    (lambda self, c: c.schedule(Time.seconds(0) * 0, self.every), "which must be at least a millisecond"),
    (lambda self, c: c.schedule(Time.seconds(1), print), "must be a method of its processor"),
]


@pytest.mark.parametrize(("how", "why"), WRONG_TIMES)
def test_wrong_timers_are_refused(how, why):
    class Sets(Timed):
        def process(self, key, row, context):
            how(self, context)

    with pytest.raises(StepError, match=why):
        ProcessorTest(Sets, **TIMED, time_field="ts").pipe({"k": 1, "n": 1, "ts": T0})


class Times(Does):
    """Stores whose keys are times, or numbers with fewer digits than Python's."""

    moments = MapStore("at timestamp", "n int")
    locals = MapStore("at timestamp_ntz, n int", "n int")
    weights = MapStore("weight float", "n int")
    windows = WindowStore("n int", retention=Time.minutes(10))
    sessions = SessionStore("n int", retention=Time.minutes(10))
    versions = VersionedStore("n int", retention=Time.minutes(10))
    days = MapStore("day date", "n int")
    numbers = MapStore("number double", "n int")
    prices = MapStore("price decimal(10,2)", "n int")


NAIVE = T0.replace(tzinfo=None)
# What was put under a key, as state gives that key back in a later batch, and how the key is asked for.
KEYS = [
    (lambda c: c.moments.put(NAIVE, {"n": 1}), lambda c: (c.moments.get(T0), c.moments.get("2026-01-05T10:00:00Z"))),
    (lambda c: c.moments.put(T0, {"n": 1}), lambda c: (c.moments.get(NAIVE), c.moments.get(T0))),
    (
        lambda c: c.locals.put({"at": T0, "n": 1}, {"n": 1}),
        lambda c: (c.locals.get({"at": NAIVE, "n": 1}), c.locals.get({"at": T0, "n": 1})),
    ),
    (lambda c: c.weights.put(0.1, {"n": 1}), lambda c: (c.weights.get(0.10000000149011612), c.weights.get(0.1))),
    (lambda c: c.windows.put(NAIVE, {"n": 1}), lambda c: (c.windows.get(T0), c.windows.fetch(NAIVE, NAIVE)[0][1])),
    (
        lambda c: c.sessions.put(NAIVE, NAIVE, {"n": 1}),
        lambda c: (c.sessions.find(NAIVE, T0)[0][2], c.sessions.find(T0, T0)[0][2]),
    ),
    (lambda c: c.versions.put({"n": 1}, NAIVE), lambda c: (c.versions.get(), c.versions.get(NAIVE))),
    (
        lambda c: c.days.put(T0.replace(hour=0), {"n": 1}),
        lambda c: (c.days.get(date(2026, 1, 5)), c.days.get(T0.replace(hour=0))),
    ),
    (lambda c: c.numbers.put(math.nan, {"n": 1}), lambda c: (c.numbers.get(-float("nan")), c.numbers.range(1.0)[0][1])),
    (lambda c: c.numbers.put(-0.0, {"n": 1}), lambda c: (c.numbers.get(0), c.numbers.get(0.0))),
    (
        lambda c: c.prices.put(Decimal("0.1"), {"n": 1}),
        lambda c: (c.prices.get(Decimal("0.100")), c.prices.items()[0][1]),
    ),
]


@pytest.mark.parametrize(("put", "asked"), KEYS)
def test_a_key_of_a_store_is_found_however_it_is_given(put, asked):
    assert done(put, asked, processor=Times)[1] == ({"n": 1}, {"n": 1})
    assert done(lambda c: put(c) or asked(c), processor=Times) == [({"n": 1}, {"n": 1})]


def test_a_time_of_a_store_must_be_a_time():
    with pytest.raises(TypeError, match="must be a datetime, such as context.time, not '10:00'"):
        done(lambda c: c.windows.get("10:00"))


def test_a_record_that_was_passed_on_does_not_change_any_more():
    class Path(Processor):
        seen = ValueStore("n int")

        def process(self, key, row, context):
            tags = []
            for tag in "ab":
                tags.append(tag)
                context.forward({"tags": tags})

    test = ProcessorTest(Path, keys="k", schema="tags array<string>")
    test.pipe({"k": 1})
    assert test.forwarded() == [{"tags": ["a"]}, {"tags": ["a", "b"]}]


class Schemaless(Processor):
    """A store without the fields of its keys."""

    entries = MapStore(None, "n bigint")

    def process(self, key, row, context): ...


def test_a_store_without_a_schema_is_refused_and_its_remedy_is_taken():
    with pytest.raises(SchemaError, match="a store of step 'processor' has no schema") as caught:
        ProcessorTest(Schemaless, keys="k", schema="n int")
    assert "ValueStore('n bigint')" in caught.value.remedy
    assert "MapStore('sku string', 'n bigint')" in caught.value.remedy

    class Mended(Schemaless):
        count = ValueStore("n bigint")
        entries = MapStore("sku string", "n bigint")

    ProcessorTest(Mended, keys="k", schema="n int").pipe({"k": 1})


class Nested(Does):
    """A store whose keys are lists."""

    paths = MapStore("path array<string>", "n bigint")


def test_a_key_that_has_no_order_is_refused_and_its_remedy_is_taken():
    with pytest.raises(SchemaError, match="has the key 'path' of type array, which has no order") as caught:
        ProcessorTest(Nested, keys="k", schema="n int")
    assert caught.value.remedy.startswith("make a text of it: MapStore('path string', ...)")

    class Mended(Does):
        paths = MapStore("path string", "n bigint")

    def paths(context):
        context.paths.put(json.dumps(["a", "b"]), {"n": 1})
        return context.paths.get(json.dumps(["a", "b"]))

    assert done(paths, processor=Mended) == [{"n": 1}]


class Typed(Does):
    """A store of all types."""

    value = ValueStore(
        "at timestamp, wall timestamp_ntz, day date, weight float, price decimal(10,2), n bigint, tags array<string>,"
        " part struct<a int, b map<string, double>>, raw binary, text string, sure boolean"
    )


# What is put, and what is there from then on.
VALUES = {
    "at": (NAIVE.isoformat(), T0),
    "wall": (T0, NAIVE),
    "day": (T0.replace(hour=0), date(2026, 1, 5)),
    "weight": (0.1, 0.10000000149011612),
    "price": (Decimal("0.1"), Decimal("0.10")),
    "n": (5.0, 5),
    "tags": (("a", None), ["a", None]),
    "part": ({"b": {"x": 1}}, {"a": None, "b": {"x": 1.0}}),
    "raw": (bytearray(b"a"), b"a"),
    "text": ("é", "é"),
    "sure": (None, None),
}


def test_a_value_has_the_type_of_its_field_from_the_moment_when_it_is_put():
    def both(context):
        context.value.put({name: given for name, (given, _) in VALUES.items()})
        return context.value.get()

    now, later = done(both, lambda c: c.value.get(), processor=Typed)
    assert repr(now) == repr(later)
    kept = {name: value for name, (_, value) in VALUES.items()}
    assert {name: (type(value), value) for name, value in later.items()} == {
        name: (type(value), value) for name, value in kept.items()
    }


def test_rows_of_a_processor_test_have_the_types_of_a_run_if_they_are_given():
    schema, rows = "k double, at timestamp, kinds array<string>", "k double, ts timestamp"
    test = ProcessorTest(Clock, keys="k", schema=schema, rows=rows)
    test.pipe({"k": -0.0, "ts": "2026-01-05T10:00:00"}, {"k": 0, "ts": None})
    assert test.forwarded() == [
        {"k": 0.0, "at": T0, "kinds": ["float", "datetime", "1"]},
        {"k": 0.0, "at": None, "kinds": ["float", "NoneType", "2"]},
    ]
    with pytest.raises(StepError, match="got a row that does not fit its schema: k='x' is not of type double"):
        test.pipe({"k": "x"})


class Clock(Processor):
    """Passes on what it got."""

    seen = ValueStore("n int")

    def process(self, key, row, context):
        n = (context.seen.get() or {"n": 0})["n"] + 1
        context.seen.put({"n": n})
        kinds = [type(row["k"]).__name__, type(row["ts"]).__name__, str(n)]
        context.forward({"k": key["k"], "at": row["ts"] and row["ts"].replace(tzinfo=None), "kinds": kinds})
