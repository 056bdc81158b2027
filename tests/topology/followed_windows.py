"""Remedies of windows, and of tables that windows are written to."""

from __future__ import annotations

from datetime import UTC, datetime

from rs_assets import CalendarWindow, CumulateWindow, GlobalWindow, SessionWindow, Time, TumblingWindow
from tests.topology.followed_programs import MINUTE, TEN, Case, built, counted, hits

STREAM = "stream/window_stream.py::WindowStream._split_mark"
WINDOW = "topology/nodes/window.py::WindowAggregate"
UPDATES = "topology/updates.py"
SESSION = SessionWindow.of(Time.seconds(7), "ts")


def marked(**how):
    return built(counted(hits(tail=True)).water_mark(Time.seconds(5), **how))


def updates(window=TEN, **how):
    """The rows of windows that tell each update, in a table."""
    return counted(window=window, emit="on_window_update").to_delta("t", mode="upsert", **how).build()


def mixed(emit="on_record", *, before=False, after=False):
    """The rows that each record makes in a table, with a shuffle before or after the window."""
    rows = hits().shuffle(2, strategy="memory") if before else hits()
    made = counted(rows, emit=emit)
    made = made.shuffle(2, strategy="memory") if after else made
    return made.to_delta("t", mode="upsert", keys=["page", "start_time"]).build()


def united_ways():
    """Two windows of two names beside each other, each of which fires in its own way."""
    rows = hits()
    counted(rows, name="updates", emit="on_window_update").to_print(name="print_updates")
    return counted(rows, name="early").emit_before(Time.seconds(1)).to_print(name="print_early")


def day(**how):
    return counted(window=CalendarWindow.days("Europe/Berlin", "ts"), **how)


CASES = [
    Case(
        STREAM,
        lambda: marked(lateness="record"),
        "lateness='record' with per='split'",
        lambda: marked(lateness="record", per="split"),
    ),
    Case(
        STREAM,
        lambda: marked(per="input", idle_timeout=Time.minutes(1)),
        "per='input' without idle_timeout, or per='split'",
        lambda: (marked(per="input"), marked(per="split", idle_timeout=Time.minutes(1))),
    ),
    Case(
        f"{WINDOW}.__post_init__",
        lambda: built(hits().window(TEN).group_by("page").to_data_stream()),
        "add .count('rows')",
        lambda: built(hits().window(TEN).group_by("page").count("rows")),
    ),
    Case(
        f"{WINDOW}.__post_init__",
        lambda: built(hits().window(TEN).group_by("page").count("page")),
        "give the aggregate another name, or leave a field of group_by out of keep=",
        lambda: built(hits().window(TEN).group_by("page").count("pages")),
    ),
    Case(
        f"{WINDOW}._check_splits",
        lambda: built(counted(window=TumblingWindow.of(Time.seconds(10))).water_mark(Time.seconds(5), per="split")),
        "leave per='split' out, or name the time field",
        lambda: (
            built(counted(window=TumblingWindow.of(Time.seconds(10))).water_mark(Time.seconds(5))),
            built(counted(window=TEN).water_mark(Time.seconds(5), per="split")),
        ),
    ),
    Case(
        f"{WINDOW}._check_emit",
        lambda: built(counted(window=GlobalWindow(), emit="on_window_update")),
        "leave emit= and the times of firings out",
        lambda: built(counted(window=GlobalWindow())),
    ),
    Case(
        f"{WINDOW}._check_emit",
        lambda: built(counted(window=SESSION).late_firings("deltas")),
        ".late_firings('totals'), or a tumbling or hopping window",
        lambda: (
            built(counted(window=SESSION).late_firings("totals")),
            built(counted(window=TEN).late_firings("deltas")),
        ),
    ),
    Case(
        f"{WINDOW}._check_emit",
        lambda: built(counted(emit="always")),
        "use one of: on_window_close, on_window_update",
        lambda: built(counted(emit="on_window_update")),
    ),
    Case(
        f"{WINDOW}._check_firing",
        lambda: built(day().late_firings("totals")),
        "use .emit_after(Time.hours(1)), or a tumbling window of a day",
        lambda: (
            built(day().emit_after(Time.hours(1))),
            built(counted(window=TumblingWindow.of(Time.days(1), "ts")).late_firings("totals")),
        ),
    ),
    Case(
        f"{WINDOW}._check_firing",
        lambda: built(counted(emit="on_window_update").emit_before(Time.seconds(1))),
        "use one of them, or two windows with two names",
        lambda: (
            built(counted().emit_before(Time.seconds(1))),
            united_ways().build(),
        ),
    ),
    Case(
        f"{WINDOW}._check_firing",
        lambda: built(counted().late_firings("all")),
        "use one of: 'deltas', 'totals'",
        lambda: built(counted().late_firings("totals")),
    ),
    Case(
        f"{UPDATES}::_check",
        lambda: built(counted(counted(emit="on_window_update"), MINUTE, "minutes")),
        "let that window fire once, when it closes, or let only a sink follow it",
        lambda: (
            built(counted(counted(), MINUTE, "minutes")),
            built(counted(emit="on_window_update")),
        ),
    ),
    Case(
        f"{UPDATES}::_check_keys",
        lambda: updates(keys=["page"]),
        "keys=['page', 'start_time']",
        lambda: updates(keys=["page", "start_time"]),
    ),
    Case(
        f"{UPDATES}::_check_retractions",
        lambda: updates(SESSION, keys=["page", "start_time", "end_time"]),
        "deletes='retracted'",
        lambda: updates(SESSION, keys=["page", "start_time", "end_time"], deletes="retracted"),
    ),
    Case(
        f"{UPDATES}::_check_order",
        lambda: mixed(after=True),
        "put the shuffle before that window, leave it out, or let the window have emit='on_window_update'",
        lambda: (mixed(before=True), mixed(), mixed("on_window_update", after=True)),
    ),
    Case(
        "operators/window/bounds.py::EventTimeBounds.__post_init__",
        lambda: counted().event_time(earliest=datetime(1960, 1, 1, tzinfo=UTC)),
        "use datetime(1970, 1, 1, tzinfo=UTC) or later",
        lambda: built(counted().event_time(earliest=datetime(1970, 1, 1, tzinfo=UTC))),
    ),
    Case(
        "operators/window/output.py::Ranking.__post_init__",
        lambda: hits().window(TEN).top_n(3, by=[]),
        "top_n(3, by='ms')",
        lambda: built(hits().window(TEN).top_n(3, by="ms")),
    ),
    Case(
        "operators/window/spec.py::_check_offset",
        lambda: TumblingWindow.of(Time.seconds(10), "ts", offset=Time.seconds(12)),
        "subtract multiples of that distance",
        lambda: TumblingWindow.of(Time.seconds(10), "ts", offset=Time.seconds(2)),
    ),
    Case(
        "operators/window/spec.py::CumulateWindow.__post_init__",
        lambda: CumulateWindow.of(Time.seconds(10), Time.seconds(3), "ts"),
        "use a step that divides the size",
        lambda: CumulateWindow.of(Time.seconds(10), Time.seconds(2), "ts"),
    ),
    Case(
        "operators/window/spec.py::CalendarWindow.__post_init__",
        lambda: CalendarWindow("year", "UTC", "ts"),
        "use days(), weeks() or months()",
        lambda: (CalendarWindow.days("UTC"), CalendarWindow.weeks("UTC"), CalendarWindow.months("UTC")),
    ),
    Case(
        "common/zones.py::checked_zone",
        lambda: CalendarWindow.days("Berlin", "ts"),
        "'Europe/Berlin' or 'UTC'",
        lambda: (CalendarWindow.days("Europe/Berlin", "ts"), CalendarWindow.days("UTC", "ts")),
    ),
    Case(
        "operators/window/messages.py::no_event_time",
        lambda: built(counted(window=TumblingWindow.of(Time.seconds(10), "paid"))),
        "use a timestamp, epoch milliseconds as bigint (seconds: timestamp_seconds())",
        lambda: (
            built(counted(window=TEN)),
            built(counted(window=TumblingWindow.of(Time.seconds(10), "ms"))),
            built(counted(hits().with_fields(at="timestamp_seconds(ms)"), TumblingWindow.of(Time.seconds(10), "at"))),
        ),
    ),
    Case(
        "operators/window/messages.py::no_number",
        lambda: built(hits().window(TEN).sum("page")),
        ".with_fields(page='cast(page as double)')",
        lambda: built(hits().with_fields(page="cast(page as double)").window(TEN).sum("page")),
    ),
]
