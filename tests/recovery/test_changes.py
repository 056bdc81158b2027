"""A pipeline changes: what state it may keep, what is refused with a difference and choices, what is a mapping."""

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.checkpoint import manifest as manifests
from rs_assets.cli.run.status import status_of
from rs_assets.common.home import Home
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import (
    CheckpointError,
    ConfigurationError,
    EngineError,
    SinkError,
    StartRefused,
    TopologyChangedError,
    TopologyError,
)
from rs_assets.runtime.upkeep.savepoints import rewind
from tests.crash import Crash
from tests.operators.model import at

SCHEMA = "page string, n bigint, ts timestamp"


def rows(page, *times, n=1):
    return [{"page": page, "n": n, "ts": at(t)} for t in times]


class World:
    """Two channels and one home, and pipelines over them that differ in one thing."""

    def __init__(self, options):
        self.options = options
        self.first, self.second = MemoryChannel(schema=SCHEMA), MemoryChannel(schema=SCHEMA)

    def stream(self, *names):
        builder = StreamBuilder.data_stream("shop", "changing")
        streams = [builder.from_memory(c, name=n) for n, c in zip(names, (self.first, self.second), strict=False)]
        return streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]

    def windowed(self, stream, *, step="pages", aggregate="sum", table="pages", condition=None, sink=None):
        if condition:
            stream = stream.filter(condition)
        window = stream.window(TumblingWindow.of(Time.seconds(10), "ts"), name=step).group_by("page")
        return getattr(window, aggregate)("n", "total").to_data_stream().to_delta(table, name=sink)

    def run(self, stream, renamed=None, **changes):
        return stream.build(renamed=renamed).run(replace(self.options, **changes))

    def table(self, name="pages"):
        found = DeltaTable(self.options.home.table("shop", name)).to_pyarrow_table().to_pylist()
        return sorted((row["page"], row["start_time"].timestamp() % 100, row["total"]) for row in found)


@pytest.fixture
def world(options):
    return World(options)


def start(world):
    """One window of page a with a total of 1 waits in state."""
    world.first.put(*rows("a", 1))
    assert world.run(world.windowed(world.stream("clicks"))).rows_open == 1


def end(world, stream, **how):
    """What the open window becomes when it closes."""
    world.first.put(*rows("a", 2, 100))
    world.run(stream, **how)
    return [row for row in world.table() if row[0] == "a"]


def test_a_stateless_change_behind_the_window_starts_as_it_is(world):
    start(world)
    stream = world.windowed(world.stream("clicks"))
    assert end(world, stream.filter("total > 0").to_print())[0][2] == 2


@pytest.mark.parametrize(
    "change", [{"aggregate": "max"}, {"condition": "n > 0"}, {"step": "other"}], ids=["aggregate", "filter", "name"]
)
def test_a_change_that_touches_state_is_refused_with_the_difference_and_the_choices(world, change):
    start(world)
    stream = world.windowed(world.stream("clicks"), **change)
    with pytest.raises(
        TopologyChangedError, match=r"(?s)[-+] .*(--reset-step NAME|renamed=).*--keep-state.*--new-generation"
    ):
        world.run(stream)


def test_of_another_python_it_is_said_that_functions_differ_by_it(world):
    start(world)
    folder = world.options.home.job("shop", "changing")
    manifests.save(folder, replace(manifests.load(folder), python="3.9"))
    other = world.windowed(world.stream("clicks"), condition="n > 0")
    with pytest.raises(TopologyChangedError, match=r"or only by Python 3\.9, which compiles") as refused:
        world.run(other)
    assert refused.value.remedy.startswith("if only Python has changed, use the state as it is (--keep-state); else")
    assert end(world, other, keep_state=True)[0][2] == 2
    with pytest.raises(TopologyChangedError) as refused:
        world.run(world.windowed(world.stream("clicks")))
    assert "Python" not in str(refused.value)


def test_if_no_batch_was_committed_the_remedy_is_a_new_generation_which_loses_nothing(world):
    world.first.put(*rows("a", 1, 2))
    with pytest.raises(EngineError):
        world.run(world.windowed(world.stream("clicks"), condition="CAST(page AS int) > 0"))
    corrected = world.windowed(world.stream("clicks"))
    with pytest.raises(TopologyChangedError) as refused:
        world.run(corrected)
    assert refused.value.remedy.startswith("begin a new generation (--new-generation), as no batch was committed; or")
    assert end(world, corrected, new_generation=True)[0][2] == 3


def test_kept_state_is_used_on_the_word_of_the_user(world):
    start(world)
    assert end(world, world.windowed(world.stream("clicks"), condition="n > 0"), keep_state=True)[0][2] == 2


def test_kept_state_that_does_not_fit_is_refused_and_taken_by_the_code_that_wrote_it(world):
    start(world)
    clicks = world.stream("clicks")
    world.first.put(*rows("a", 3))
    doubles = world.windowed(clicks.map("page", "ts", "CAST(n AS double) AS n"))
    with pytest.raises(TopologyChangedError, match="the state has other columns") as refused:
        world.run(doubles, keep_state=True)
    assert "go back to the code that wrote it (--keep-state)" in refused.value.remedy
    assert end(world, world.windowed(world.stream("clicks")), keep_state=True)[0][2] == 3


def test_a_step_that_is_reset_reads_its_input_again_and_replaces_its_rows(world):
    start(world)
    world.first.put(*rows("b", 50))
    world.run(world.windowed(world.stream("clicks")))
    changed = world.windowed(world.stream("clicks"), aggregate="max")
    assert [row[2] for row in end(world, changed, reset_steps=("pages",))] == [1]
    with pytest.raises(ConfigurationError, match="use one of: pages"):
        world.run(changed, reset_steps=("nothing",))


@pytest.mark.parametrize(("before", "now"), [("complete", "append"), ("append", "complete")])
def test_a_step_is_reset_to_write_its_windows_in_another_mode(world, before, now):
    def windows(mode):
        window = world.stream("clicks").window(TumblingWindow.of(Time.seconds(10), "ts"), name="pages")
        return window.group_by("page").sum("n", "total").to_data_stream().to_delta("pages", mode=mode)

    world.first.put(*rows("a", 1), *rows("b", 50))
    world.run(windows(before))
    with pytest.raises(TopologyChangedError, match="--reset-step"):
        world.run(windows(now))
    world.first.put(*rows("a", 100))
    world.run(windows(now), reset_steps=("pages",))
    world.first.put(*rows("a", 200))
    world.run(windows(now))
    closed = [("a", 0.0, 1), ("a", 0.0, 1), ("b", 50.0, 1)]
    every = [*closed, ("a", 0.0, 1)]
    assert world.table() == sorted(every if now == "complete" else closed)


def test_a_removed_step_that_comes_back_goes_on_or_is_refused(world):
    def two(seconds):
        stream = world.stream("clicks")
        pages = world.windowed(stream)
        if seconds is None:
            return pages
        window = stream.window(TumblingWindow.of(Time.seconds(seconds), "ts"), name="other").group_by("page")
        return window.sum("n", "total").to_data_stream().to_delta("others")

    world.first.put(*rows("a", 1, 11, 25))
    world.run(two(20))
    world.first.put(*rows("a", 31))
    with pytest.raises(TopologyChangedError, match="other") as refused:
        world.run(two(None))
    # There is nothing to reset.
    assert "--reset-step" not in refused.value.remedy
    world.run(two(None), keep_state=True)
    world.run(two(None))
    world.first.put(*rows("a", 65))
    with pytest.raises(TopologyChangedError, match="(?s)TumblingWindow.*--reset-step NAME"):
        world.run(two(50))
    world.run(two(20))
    assert world.table("others") == [("a", 0.0, 2), ("a", 20.0, 2)]
    world.run(two(50), reset_steps=("other",))
    assert world.table("others") == [("a", 0.0, 4)]


@pytest.mark.parametrize("how", [{"new_generation": True}, {"reset_steps": ("pages",)}], ids=["generation", "step"])
@pytest.mark.parametrize(
    ("field", "value"), [("more", "total + 1"), ("page", "try_cast(page AS bigint)")], ids=["column", "type"]
)
def test_a_generation_whose_columns_the_table_lacks_leaves_the_former_one_as_it_is(world, how, field, value):
    start(world)
    world.first.put(*rows("b", 50))
    world.run(world.windowed(world.stream("clicks")))
    before = world.table()

    def other(table):
        window = world.stream("clicks").window(TumblingWindow.of(Time.seconds(10), "ts"), name="pages")
        totals = window.group_by("page").sum("n", "total").to_data_stream().with_fields(**{field: value})
        return totals.to_delta(table, name="pages_table")

    with pytest.raises(StartRefused, match=f"the columns of the table and of the rows differ: {field}") as refused:
        world.run(other("pages"), **how)
    assert "write to another table" in refused.value.remedy
    # The former code goes on with its state, and reads nothing again.
    world.first.put(*rows("b", 51, 100))
    assert world.run(world.windowed(world.stream("clicks"))).rows_in == 2
    assert world.table() == sorted([*before, ("b", 50.0, 2)])
    assert world.run(other("others"), **how).rows_in == 4


@pytest.mark.parametrize("mode", ["upsert", "history"])
def test_a_generation_of_rows_that_a_field_deletes_has_the_columns_of_the_table(world, mode):
    """The field is a column of the table, too."""
    start(world)
    rows_with_flag = world.stream("clicks").with_fields(gone="n < 0")
    kept = rows_with_flag.to_delta("kept", mode=mode, keys=["page"], deletes="gone", name="pages_table")
    first = world.run(kept, new_generation=True)
    assert world.run(kept, new_generation=True).generation == first.generation + 1


def test_a_new_generation_after_a_reset_step_is_newer_than_both(world):
    start(world)
    changed = world.windowed(world.stream("clicks"), aggregate="max")
    world.run(changed, reset_steps=("pages",))
    assert world.run(changed, new_generation=True).generation == 3


def test_sources_come_go_and_change_places_with_state_kept(world):
    start(world)
    both = world.windowed(world.stream("clicks", "views"))
    world.second.put(*rows("a", 3))
    assert world.run(both).rows_in == 1
    world.first, world.second = world.second, world.first
    swapped = world.windowed(world.stream("views", "clicks"))
    world.second.put(*rows("a", 4))
    assert world.run(swapped).rows_in == 1
    world.first, world.second = world.second, world.first
    world.first.put(*rows("a", 100))
    world.run(world.windowed(world.stream("clicks")))
    assert world.table() == [("a", 0.0, 3)]


def test_a_source_that_comes_back_goes_on_where_it_was(world):
    start(world)
    world.second.put(*rows("a", 3))
    world.run(world.windowed(world.stream("clicks", "views")))
    for number in range(3):
        world.first.put(*rows("a", 4 + number))
        world.run(world.windowed(world.stream("clicks")))
    world.second.put(*rows("a", 5))
    world.run(world.windowed(world.stream("clicks", "views")))
    world.first.put(*rows("a", 100))
    world.run(world.windowed(world.stream("clicks")))
    assert world.table()[0][2] == 6


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_a_source_comes_back_behind_any_number_of_batches(world, batches):
    world.second.put(*rows("b", 1))
    for number in range(2):
        world.first.put(*rows("a", number))
        world.run(world.stream("clicks", "views").to_delta("plain"))
    for number in range(batches):
        world.first.put(*rows("a", 2 + number))
        world.run(world.stream("clicks").to_delta("plain"))
    world.second.put(*rows("b", 2))
    assert world.run(world.stream("clicks", "views").to_delta("plain")).rows_in == 1


def test_a_source_is_added_to_a_pipeline_without_state(world):
    world.first.put(*rows("a", 1))
    world.run(world.stream("clicks").to_delta("plain"))
    world.second.put(*rows("b", 1))
    world.first.put(*rows("a", 2))
    report = world.run(world.stream("clicks", "views").to_delta("plain"))
    assert report.rows_in == 2
    assert DeltaTable(world.options.home.table("shop", "plain")).to_pyarrow_table().num_rows == 3


def test_renamed_steps_keep_state_offsets_and_markers(world):
    start(world)
    new = world.windowed(world.stream("visits"), step="per_page", sink="written")
    names = {"clicks": "visits", "pages": "per_page", "pages_table": "written"}
    assert end(world, new, renamed=names) == [("a", 0.0, 2)]
    world.first.put(*rows("b", 200))
    again = world.run(new, renamed=names)
    assert (again.rows_in, again.generation) == (1, 1)
    later = world.windowed(world.stream("hits"), step="by_page", sink="written")
    world.first.put(*rows("c", 300))
    assert world.run(later, renamed={"visits": "hits", "per_page": "by_page"}).rows_in == 1


def test_a_rename_that_cannot_be_is_refused_when_the_pipeline_is_built(world):
    for names in ({"old": "nothing"}, {"clicks": "pages"}):
        with pytest.raises(TopologyError, match="cannot have been renamed"):
            world.windowed(world.stream("clicks")).build(renamed=names)


def test_open_windows_do_not_depend_on_the_steps_behind_them(world):
    """Spark would push the filter below the windows, and keep no aggregate that nobody asks for."""

    def narrow(page, *fields):
        window = world.stream("clicks").window(TumblingWindow.of(Time.seconds(10), "ts"), name="pages")
        sums = window.group_by("page").count("rows").sum("n", "total").to_data_stream().filter(f"page = '{page}'")
        return sums.select_fields("page", "start_time", *fields).to_delta("pages")

    world.first.put(*rows("a", 1), *rows("b", 1, 2, n=5))
    assert world.run(narrow("a", "rows")).rows_open == 2
    world.first.put(*rows("b", 3, 100, n=5))
    world.run(narrow("b", "total"))
    assert world.table() == [("b", 0.0, 15)]


def test_the_state_of_another_operator_is_not_kept(world):
    start(world)
    window = world.stream("clicks").window(TumblingWindow.of(Time.seconds(10), "ts"), name="pages", emit="on_record")
    stream = window.group_by("page").sum("n", "total").to_data_stream().to_delta("other", name="pages_table")
    with pytest.raises(TopologyChangedError, match="number of buckets, or by another operator") as refused:
        world.run(stream, keep_state=True)
    assert refused.value.remedy.startswith("drop that state (--reset-step pages), or begin a new generation")
    world.run(stream, reset_steps=("pages",))


def test_the_state_of_another_number_of_buckets_is_not_kept(world):
    def counts(buckets):
        stream = world.stream("clicks").process_values(
            lambda key, state, rows: ({"n": 1}, [{**key, "n": 1 if state else 0}]),
            keys="page", state="n bigint", schema="page string, n bigint", name="counts", buckets=buckets,
        )  # fmt: skip
        return stream.to_delta("counts")

    def counted():
        table = DeltaTable(world.options.home.table("shop", "counts")).to_pyarrow_table()
        return sorted(table["n"].to_pylist())

    world.first.put(*rows("a", 1))
    world.run(counts(64))
    world.first.put(*rows("a", 2))
    with pytest.raises(TopologyChangedError, match="number of buckets, or by another operator") as refused:
        world.run(counts(8), keep_state=True)
    assert refused.value.remedy.startswith("drop that state (--reset-step counts), or begin a new generation")
    world.run(counts(64))
    assert counted() == [0, 1]
    world.run(counts(8), reset_steps=("counts",))
    assert counted() == [0]


def test_a_step_that_went_with_its_state_is_not_forgotten_silently(world):
    start(world)
    with pytest.raises(TopologyChangedError, match="- window_aggregate pages"):
        world.run(world.stream("clicks").to_delta("plain"))


def test_a_rewind_to_before_state_was_kept_leads_back_to_the_code_that_made_it(world):
    start(world)
    clicks = world.stream("clicks")
    filtered = world.windowed(clicks, condition="n > 5")
    world.first.put(*rows("a", 2))
    world.run(filtered, keep_state=True)
    world.run(filtered)
    rewind(filtered.build().topology, 0, world.options)
    with pytest.raises(TopologyChangedError, match=r"\+ filter"):
        world.run(filtered)
    assert end(world, world.windowed(clicks))[0][2] == 3


def test_a_step_that_takes_the_output_of_another_one_starts_over(world):
    start(world)
    end(world, world.windowed(world.stream("clicks")))
    other = world.windowed(world.stream("clicks"), step="other", aggregate="max")
    with pytest.raises(TopologyChangedError, match="--keep-state"):
        world.run(other)
    with pytest.raises(TopologyChangedError, match="has rows of the step 'pages', and 'other' would read") as refused:
        world.run(other, keep_state=True)
    assert "start over (--keep-state --reset-step other, or --new-generation), which replaces" in refused.value.remedy
    assert [row[2] for row in end(world, other, keep_state=True, reset_steps=("other",))] == [1]
    assert [row[2] for row in end(world, other)] == [1]


def test_a_step_with_state_takes_the_output_of_a_version_without_by_starting_over(world):
    def copied(distinct):
        clicks = world.stream("clicks")
        if distinct:
            clicks = clicks.distinct("page", within=Time.seconds(60), time_field="ts", name="once")
        return clicks.map("page", "ts AS start_time", "n AS total").to_delta("pages")

    world.first.put(*rows("a", 1, 2))
    world.run(copied(distinct=False))
    with pytest.raises(TopologyChangedError, match="has rows of a version without state") as refused:
        world.run(copied(distinct=True))
    assert "start over (--keep-state --reset-step once, or --new-generation), which replaces" in refused.value.remedy
    world.run(copied(distinct=True), reset_steps=("once",), keep_state=True)
    world.first.put(*rows("b", 3))
    world.run(copied(distinct=True))
    assert [row[0] for row in world.table()] == ["a", "b"]


def test_a_lost_checkpoint_is_not_taken_for_a_first_start(world):
    import shutil

    start(world)
    end(world, world.windowed(world.stream("clicks")))
    shutil.rmtree(world.options.home.job("shop", "changing") / "g0001")
    with pytest.raises(CheckpointError, match="--new-generation"):
        world.run(world.windowed(world.stream("clicks")))


def test_should_tell_where_a_query_stands_after_its_step_was_reset_or_renamed(world):
    start(world)
    stream = world.windowed(world.stream("clicks"))
    world.run(stream, reset_steps=("pages",))
    (before,) = status_of(stream.build(), world.options.home)
    assert before["generation"] == 2
    assert before["last_batch"] >= 0
    renamed = world.windowed(world.stream("clicks"), step="views", sink="pages_table")
    world.first.put(*rows("a", 3))
    world.run(renamed, renamed={"pages": "views"})
    (entry,) = status_of(renamed.build(renamed={"pages": "views"}), world.options.home)
    assert entry["generation"] == 2
    assert entry["last_batch"] > before["last_batch"]


def test_a_source_with_another_name_is_not_read_again_by_mistake(options, tmp_path):
    """What it reads tells that it is the same one: its rows would stand in the table twice."""
    file = tmp_path / "in" / "a.jsonl"
    file.parent.mkdir()
    file.write_text('{"n": 1}\n{"n": 2}\n')

    def run(name, renamed=None, folder=file.parent, **changes):
        stream = StreamBuilder.data_stream("shop", "files").from_file(folder, schema="n bigint", name=name)
        stream.to_delta("numbers").build(renamed=renamed).run(replace(options, **changes))
        return sorted(DeltaTable(options.home.table("shop", "numbers")).to_pyarrow_table()["n"].to_pylist())

    assert run("clicks") == [1, 2]
    with pytest.raises(TopologyChangedError, match="'hits' would be read from its beginning .* of 'clicks'") as error:
        run("hits")
    assert "renamed={'clicks': 'hits'}" in error.value.remedy
    assert "--reset-step hits" in error.value.remedy
    assert run("hits", renamed={"clicks": "hits"}) == [1, 2]
    assert run("hits") == [1, 2]
    assert run("seen", reset_steps=("seen",)) == [1, 2]
    # Another folder is another input.
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.jsonl").write_text('{"n": 3}\n')
    assert run("more", folder=other) == [1, 2, 3]
    with pytest.raises(TopologyChangedError, match="as those of 'seen'") as error:
        run("again")
    assert "renamed" not in error.value.remedy
    assert run("seen") == [1, 2, 3]


def test_an_output_with_another_name_does_not_write_beside_the_rows_of_the_old_one(world):
    world.first.put(*rows("a", 1))

    def run(*sinks, renamed=None, **changes):
        stream = world.stream("clicks").to_delta("also", name="also")
        for sink in sinks:
            stream = stream.to_delta("plain", name=sink)
        world.run(stream, renamed=renamed, **changes)
        return DeltaTable(world.options.home.table("shop", "plain")).to_pyarrow_table().num_rows

    assert run("out") == 1
    for changes in ({}, {"new_generation": True}):
        with pytest.raises(
            TopologyChangedError, match="'written' writes to the location of the removed output 'out'"
        ) as error:
            run("written", **changes)
        assert "renamed={'out': 'written'}" in error.value.remedy
    assert run("written", renamed={"out": "written"}) == 1
    run()
    with pytest.raises(
        TopologyChangedError, match="'again' writes to the location of the removed output 'written'"
    ) as error:
        run("again")
    assert "renamed" not in error.value.remedy


@pytest.mark.parametrize("lost", [False, True], ids=["the same home", "a home that was lost"])
def test_an_output_that_was_renamed_finds_its_rows_when_all_is_begun_afresh(options, tmp_path, lost):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"n": 1}\n{"n": 2}\n')

    def run(sink, home, **changes):
        begin = StreamBuilder.data_stream("shop", "copied")
        stream = begin.from_file(tmp_path / "in", schema="n bigint", name="clicks").to_delta(
            str(tmp_path / "copy"), name=sink
        )
        stream.build(renamed={"copy": "copied"} if sink != "copy" else {}).run(
            replace(options, home=Home(tmp_path / home), **changes)
        )
        return DeltaTable(str(tmp_path / "copy")).to_pyarrow_table().num_rows

    assert run("copy", "first") == 2
    assert run("copied", "first") == 2
    assert run("copied", "second" if lost else "first", new_generation=True) == 2
    assert run("copied", "second" if lost else "first") == 2


def test_an_output_may_be_renamed_and_all_be_begun_afresh_in_one_start(world):
    def run(sink, **how):
        world.run(world.stream("clicks").to_delta("plain", name=sink), **how)
        return DeltaTable(world.options.home.table("shop", "plain")).to_pyarrow_table().num_rows

    world.first.put(*rows("a", 1))
    assert run("out") == 1
    assert run("written", renamed={"out": "written"}, new_generation=True) == 1


def test_an_output_that_replaces_rows_otherwise_than_before_is_refused(world):
    """Rows of page a stand twice by n, so an upsert by page would leave one of them beside the new row for ever."""
    world.first.put(*rows("a", 1, n=1), *rows("a", 2, n=2))

    def run(keys, *, mode="upsert", **changes):
        stream = world.stream("clicks").select_fields("page", "n").to_delta("plain", name="out", mode=mode, keys=keys)
        world.run(stream, **changes)
        found = DeltaTable(world.options.home.table("shop", "plain")).to_pyarrow_table().to_pylist()
        return sorted((row["page"], row["n"]) for row in found)

    assert run(["page", "n"]) == run(["n", "page"]) == [("a", 1), ("a", 2)]
    for keys, mode in ((["page"], "upsert"), ([], "append")):
        with pytest.raises(TopologyChangedError, match="but has rows of a version that did upsert by n, page") as error:
            run(keys, mode=mode)
    assert "--reset-step clicks" in error.value.remedy
    assert run(["page"], new_generation=True) == [("a", 2)]
    assert run(["page", "n"], keep_state=True) == [("a", 2)]


def test_rules_go_back_with_the_batch(world):
    """Behind a rewind the rows are those of the rules of then, and the code of then goes on with them."""
    world.first.put(*rows("a", 1, n=1), *rows("a", 2, n=2))

    def pipeline(keys):
        return world.stream("clicks").select_fields("page", "n").to_delta("plain", name="out", mode="upsert", keys=keys)

    world.run(pipeline(["page", "n"]))
    world.first.put(*rows("a", 3, n=3))
    world.run(pipeline(["page"]), keep_state=True)
    pipeline(["page", "n"]).build().rewind(0, world.options)
    with pytest.raises(TopologyChangedError, match="would upsert by page"):
        world.run(pipeline(["page"]))
    world.run(pipeline(["page", "n"]))
    found = DeltaTable(world.options.home.table("shop", "plain")).to_pyarrow_table().to_pylist()
    assert sorted(row["n"] for row in found) == [1, 2, 3]


def test_two_outputs_of_one_table_begin_afresh_once_it_is_moved_away(world):
    """Neither can replace the rows of the other one; what the error advises is done to the letter."""
    world.first.put(*rows("a", 1, n=1), *rows("a", 2, n=2))

    def run(**how):
        stream = world.stream("clicks").select_fields("n")
        stream.filter("n = 1").to_delta("both", name="one")
        world.run(stream.filter("n = 2").to_delta("both", name="two"), **how)
        found = DeltaTable(table).to_pyarrow_table().to_pylist()
        return sorted(row["n"] for row in found)

    table = world.options.home.table("shop", "both")
    assert run() == [1, 2]
    with pytest.raises(
        SinkError, match="would replace the whole table, but another writer has written to it"
    ) as refused:
        run(new_generation=True)
    assert "move this one away and start again" in refused.value.remedy
    Path(table).rename(f"{table}-before")
    assert run() == [1, 2]


def test_other_keys_are_refused_though_a_kill_came_before_the_note_of_the_first_rows(world, monkeypatch):
    world.first.put(*rows("a", 1, n=1), *rows("a", 2, n=2))

    def run(keys):
        stream = world.stream("clicks").select_fields("page", "n")
        world.run(stream.to_delta("plain", name="out", mode="upsert", keys=keys))

    with monkeypatch.context() as patched:
        Crash(patched, DeltaWriter, behind=True)
        with pytest.raises(SinkError, match="crash behind"):
            run(["page", "n"])
    with pytest.raises(TopologyChangedError, match="would upsert by page"):
        run(["page"])
    run(["n", "page"])


def test_another_table_gets_the_rows_from_then_on_as_the_remedy_says(world):
    world.first.put(*rows("a", 1, n=1))

    def run(table, name, keys):
        stream = world.stream("clicks").select_fields("page", "n").to_delta("all")
        world.run(stream.to_delta(table, name=name, mode="upsert", keys=keys))
        return DeltaTable(world.options.home.table("shop", table)).to_pyarrow_table().to_pylist()

    run("plain", "out", ["page", "n"])
    with pytest.raises(TopologyChangedError, match="would upsert by page") as error:
        run("plain", "out", ["page"])
    assert "write the rows from now on to another table under another name" in error.value.remedy
    world.first.put(*rows("b", 2, n=2))
    assert run("other", "out2", ["page"]) == [{"page": "b", "n": 2}]


def test_an_output_that_had_no_row_may_replace_rows_as_it_likes(world):
    def run(**how):
        world.run(world.stream("clicks").select_fields("page", "n").to_delta("plain", name="out", **how))

    run(mode="upsert", keys=["page", "n"])
    run(mode="upsert", keys=["page"])
    world.first.put(*rows("a", 1, n=1), *rows("a", 2, n=2))
    run(mode="upsert", keys=["page"])
    with pytest.raises(TopologyChangedError, match="but has rows of a version that did upsert by page") as error:
        run()
    # Under another name it would be another query over this one's checkpoint.
    assert "another table" not in error.value.remedy
