"""Random programs against plain Python; `python -m tests.programs` runs more of them."""

from contextlib import suppress
from dataclasses import replace

import pytest

from tests.programs import histories, stored
from tests.programs import program as p
from tests.programs import scripts as s
from tests.programs import terms as t
from tests.programs.campaign import RIGHT, built, built_of_sql, fewer_steps, sound, verdicts
from tests.programs.compared import differences
from tests.programs.drawing import EARLIER, FAMILIES, GROUP, drawn
from tests.programs.lookups import Contained, Judged
from tests.programs.oracle import Oracle
from tests.programs.paired_families import FAMILIES as PAIRS
from tests.programs.script_meaning import after
from tests.programs.sql_form import Unwritten, as_sql, script
from tests.programs.values import ODDER, PAIRED, WIDER
from tests.tables.camera import Camera


def wrong(seeds, driver, families=()):
    programs = [drawn(seed, families) for seed in seeds]
    found = verdicts(programs, driver)
    return {label: verdict for label, verdict in found.items() if verdict[0] != RIGHT}


def in_sql(programs):
    """Those that have a form in SQL; all restart after the same batch."""
    found = []
    for program in programs:
        with suppress(Unwritten):
            found.append(replace(as_sql(program), restart=1))
    return found


@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "seed", [pytest.param(GROUP, marks=pytest.mark.canary), pytest.param(GROUP + 1, marks=pytest.mark.long)]
)
def test_programs_of_a_fixed_seed_give_the_rows_of_plain_python(driver, seed):
    assert wrong([seed], driver) == {}


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
def test_programs_in_sql_give_the_rows_of_plain_python(driver):
    programs = in_sql(drawn(seed, ("stateless", "window", "join", "other_windows")) for seed in range(24))
    found = verdicts(programs, driver, built_of_sql)
    assert {label: verdict for label, verdict in found.items() if verdict[0] != RIGHT} == {}
    assert len(programs) > 5


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
def test_programs_over_tables_in_sql_give_the_rows_of_plain_python(driver):
    programs = in_sql(drawn(seed, ("tables", "stream_tables", "asof")) for seed in range(40))
    found = verdicts(programs[:GROUP], driver, built_of_sql)
    assert {label: verdict for label, verdict in found.items() if verdict[0] != RIGHT} == {}
    assert len(programs) >= GROUP


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", [0, GROUP])
def test_programs_from_files_into_delta_give_the_rows_of_plain_python(driver, tmp_path, first):
    programs = [drawn(seed, stored.FAMILIES) for seed in range(first, first + GROUP)]
    found = stored.verdicts(programs, driver, tmp_path)
    assert {label: verdict for label, verdict in found.items() if verdict[0] != RIGHT} == {}
    assert len(found) > 2


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
def test_stored_programs_that_are_killed_rescaled_and_taken_back_give_the_rows_of_plain_python(driver, tmp_path):
    programs = [drawn(seed, stored.FAMILIES) for seed in range(2 * GROUP)]
    programs = [program for program in programs if not stored.why_not(program)][:4]
    camera = Camera()
    try:
        found, done = histories.verdicts(programs, driver, tmp_path, camera, 0)
    finally:
        camera.close()
    assert {label: verdict for label, verdict in found.items() if verdict[0] != RIGHT} == {}
    assert len(done) > 2


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
def test_programs_of_each_family_give_the_rows_of_plain_python(driver, family):
    first = GROUP * list(FAMILIES).index(family) + (0 if family in EARLIER else PAIRED if family in PAIRS else ODDER)
    assert wrong(range(first, first + GROUP), driver, (family,)) == {}


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
def test_programs_of_odd_keys_and_times_give_the_rows_of_plain_python(driver):
    assert wrong(range(ODDER + GROUP, ODDER + 2 * GROUP), driver) == {}


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
def test_programs_with_intervals_networks_rules_and_arrow_give_the_rows_of_plain_python(driver):
    assert wrong(range(WIDER, WIDER + GROUP), driver, ("stateless",)) == {}


def test_programs_of_a_seed_are_the_same_for_ever_and_their_code_is_python():
    for seed in range(20):
        program = drawn(seed)
        assert program == drawn(seed)
        compile(program.text(), program.label, "exec")


def test_programs_of_fixed_seeds_are_not_refused_and_have_all_steps():
    seeds = (*range(16), *range(WIDER, WIDER + 8))
    later = [drawn(seed, (family,)) for seed in (ODDER, ODDER + 1) for family in FAMILIES if family not in EARLIER]
    programs = later + [drawn(seed, (family,)) for seed in seeds for family in EARLIER]
    for program in programs[: len(later) + 2 * len(EARLIER)]:
        built([program])
    kinds = {type(step) for program in programs for step in program.steps}
    assert kinds >= {each for each in p.Step.__subclasses__() if each is not p.Source}


SOURCE = p.Source("a", (("key", "string"), ("n", "bigint"), ("ts", "timestamp")))
ROWS = tuple({"key": "a", "n": n, "ts": p.at(second)} for n, second in enumerate((1, 12, 3, 30)))


def counted(batches, **settings):
    counts = (p.Aggregate("c", "count"),)
    window = p.Window("s2", "a", "tumbling", 10, 0, "ts", ("key",), counts, **settings)
    return p.Program(0, (SOURCE, window), (p.Sink("s2", "append"),), tuple({"a": rows} for rows in batches))


def test_an_oracle_of_windows_loses_late_rows_and_knows_the_batch_in_which_a_window_fires():
    program = counted([ROWS[:2], ROWS[2:]])
    oracle = Oracle(program)
    rows = oracle.sink(program.sinks[0])
    assert [(batch, row["c"], row["start_time"]) for batch, row in rows] == [
        (0, 1, p.at(0)),
        (1, 1, p.at(10)),
        (2, 1, p.at(30)),
    ]
    assert oracle.late == {"s2": [ROWS[2]]}


def test_an_oracle_takes_times_from_1970_on_and_compares_them_with_a_watermark_of_milliseconds():
    before, epoch, after = (p.at(-1704067200 + second) for second in (-1, 0, 1))
    rows = tuple({"key": "a", "n": 1, "ts": time} for time in (before, epoch, after))
    windows = counted([rows])
    assert [(row["c"], row["start_time"]) for _, row in Oracle(windows).sink(windows.sinks[0])] == [(2, epoch)]
    distinct = p.Distinct("s2", "a", ("ts",), 10, "ts", 0)
    program = replace(windows, steps=(SOURCE, distinct), batches=({"a": rows},))
    assert [row["ts"] for _, row in Oracle(program).sink(program.sinks[0])] == [after]
    fine = tuple({"key": "a", "n": 1, "ts": p.at(1.0019)} for _ in range(2))
    late = replace(program, batches=({"a": fine[:1]}, {"a": fine[1:]}))
    oracle = Oracle(late)
    oracle.sink(late.sinks[0])
    assert oracle.late == {"s2": []}


def paired(*batches):
    """An early join of two streams by a key; batches are pairs of keys of the two sides."""
    left, right = SOURCE, replace(SOURCE, name="b")
    join = p.Join("s3", "a", "b", ("key",), "left", "interval", (60, 60), "ts", (5, 5), "r_", False, None, early=True)
    rows = [[{"key": key, "n": 1, "ts": p.at(1)} for key in keys] for batch in batches for keys in batch]
    made = tuple({"a": tuple(one), "b": tuple(other)} for one, other in zip(rows[::2], rows[1::2], strict=True))
    return p.Program(0, (left, right, join), (p.Sink("s3", "net"),), made)


def test_an_oracle_of_early_joins_takes_unmatched_rows_back():
    program = paired(("a", ""), ("b", "a"), ("", "a"))
    table = Oracle(program).sink(program.sinks[0])
    assert [sorted((row["key"], row["r_key"] is not None) for row in now) for now in table.after] == [
        [("a", False)],
        [("a", True), ("b", False)],
        [("a", True), ("a", True), ("b", False)],
        [("a", True), ("a", True), ("b", False)],
    ]


def test_an_oracle_of_a_changing_dimension_takes_the_rows_of_the_batch():
    lookup = p.Lookup("s2", "a", "key", "inner", (), versions=((("a", "tin", 0),), (("a", "gold", 1),)), condition="<>")
    program = p.Program(0, (SOURCE, lookup), (p.Sink("s2", "append"),), ({"a": ROWS[:2]}, {"a": ROWS[:2]}))
    found = [(batch, row["n"], row["d_tier"]) for batch, row in Oracle(program).sink(program.sinks[0])]
    assert found == [(0, 1, "tin"), (1, 0, "gold")]
    assert 'driver.reload("p0_s2")' in program.text()


def test_versions_that_are_stored_end_where_the_next_one_begins():
    rows = [{"key": "a", "id": n, "ts": p.at(second), "gone": n == 2} for n, second in enumerate((5, 1, 3, 5))]
    made = stored.versions(p.Sink("a", "history", ("key",)), rows)
    assert [(row["id"], row["valid_to"], row["current"]) for row in made] == [(1, p.at(3), False), (3, None, True)]
    assert stored.newest(p.Sink("a", "upsert", ("key",)), rows) == [rows[3]]


def times(program):
    """The windows of its only sink as seconds, with their ids."""
    rows = Oracle(program).sink(program.sinks[0])
    return sorted((*((row[name] - p.START).total_seconds() for name in EDGES), row["all"]) for _, row in rows)


EDGES = ("start_time", "end_time")


def over_rows_at(seconds, shape, size, **settings):
    """A window of each kind over rows at some times, which collects their numbers."""
    rows = tuple({"key": "a", "n": n, "ts": p.at(second)} for n, second in enumerate(seconds))
    window = p.Window("s2", "a", shape, size, 0, "ts", (), (p.Aggregate("all", "collect", "n"),), **settings)
    return p.Program(0, (SOURCE, window), (p.Sink("s2", "append"),), ({"a": rows},))


def test_an_oracle_of_sliding_windows_has_those_of_the_page():
    microsecond = 1e-6
    assert times(over_rows_at((17, 22, 32), "sliding", 10)) == [
        (7, 17, [0]),
        (12, 22, [0, 1]),
        (17 + microsecond, 27 + microsecond, [1]),
        (22, 32, [1, 2]),
        (22 + microsecond, 32 + microsecond, [2]),
    ]


def test_an_oracle_of_calendar_windows_has_days_of_23_hours():
    # In Berlin the clocks are set forward on 31 March 2024; day 90 of the year begins there at 23:00.
    day = 90 * 86400 - 3600
    assert times(over_rows_at((day - 1, day, day + 23 * 3600), "day", 0, zone="Europe/Berlin")) == [
        (day - 86400, day, [0]),
        (day, day + 23 * 3600, [1]),
        (day + 23 * 3600, day + 47 * 3600, [2]),
    ]


def test_an_oracle_of_two_sources_waits_for_the_slowest():
    """The timeline of docs/windows.md."""
    steps = (SOURCE, replace(SOURCE, name="b"), p.Union("s3", "a", "b"))
    window = p.Window("s4", "s3", "tumbling", 10, 0, "ts", (), (p.Aggregate("c", "count"),), delay=5, by_split=True)
    came = (("a", 3), ("a", 14), ("b", 6), ("a", 31), ("b", 9), ("b", 26))
    batches = tuple({source: ({"key": "", "n": 0, "ts": p.at(second)},)} for source, second in came)
    program = p.Program(0, (*steps, window), (p.Sink("s4", "append"),), batches, restart=3)
    oracle = Oracle(program)
    rows = oracle.sink(program.sinks[0])
    fired = [(batch, (row["start_time"] - p.START).total_seconds(), row["c"]) for batch, row in rows]
    assert sorted(fired) == [(5, 0, 3), (5, 10, 1), (6, 20, 1), (6, 30, 1)]
    assert [mark and (mark - p.START).total_seconds() for mark in oracle.marks.after] == [None, None, 1, 1, 4, 21]


def labels(step, **row):
    return [each["d_label"] for each in step.of_row(row)]


def test_an_oracle_of_intervals_takes_the_narrowest_and_of_equal_ones_all():
    rows = (
        ("a", 0, 10, "wide"),
        ("a", 2, 5, "first"),
        ("a", 3, 6, "last"),
        ("b", 3, 6, "equal"),
        ("a", None, 3, "open"),
    )
    step = Contained("s2", "a", "n", "bigint", None, "left", closed=False, rows=rows)
    assert [labels(step, n=n) for n in (3, 9, -7, 10, None)] == [["last", "equal"], ["wide"], ["open"], [None], [None]]
    assert labels(replace(step, on="key"), n=3, key="b") == ["equal"]
    assert labels(replace(step, closed=True, how="inner"), n=10) == ["wide"]


def test_an_oracle_of_networks_takes_the_longest_prefix_and_reads_no_other_text():
    nets = ("10.0.0.0/8", "10.1.2.77/24", "::ffff:10.1.0.0/112", "::/0", "10.0.0.0/255.0.0.0", "2001:db8::/32")
    step = Contained("s2", "a", "ip", "ip", None, "left", closed=False, rows=tuple(("a", net, net) for net in nets))
    found = {
        text: labels(step, ip=text) for text in ("10.1.2.3", "10.1.9.9", "::ffff:10.9.9.9", "::1", "010.1.2.3", None)
    }
    assert found == {
        "10.1.2.3": ["10.1.2.77/24"],
        "10.1.9.9": ["::ffff:10.1.0.0/112"],
        "::ffff:10.9.9.9": ["10.0.0.0/8"],
        "::1": ["::/0"],
        "010.1.2.3": [None],
        None: [None],
    }


def test_an_oracle_of_rules_names_those_that_are_true_by_priority():
    positive, small = t.Compare("n", ">", 0), t.Compare("n", "<", 5)
    rules = (("a", positive, None, True), ("z", small, 1, True), ("off", positive, 0, False))
    step = Judged("s2", "a", "all", rules)
    assert [row["rules"] for n in (3, 9, None) for row in step.of_row({"n": n})] == [["z", "a"], ["a"], []]
    assert replace(step, form="matched").of_row({"n": None}) == []
    assert [row["rule"] for row in replace(step, form="per_match").of_row({"n": 3})] == ["z", "a"]


def test_a_script_means_what_its_page_says():
    missing = s.If(s.Holds("n", "!=", 3), (s.Set("k", s.Called("concat", "key", "_s"), "string"),), (s.Drop(),))
    statements = (missing, s.Rename("who", "key"), s.Remove("n"))
    assert s.joined(statements) == "if(n!=3){k=concat(key,'_s')}else{break()};rename(who,key);rm(n)"
    assert after(statements, {"key": None, "n": None}) == {"k": "_s", "who": None}
    assert after(statements, {"key": "a", "n": 3}) is None
    assert s.fields_of(statements, {"key": "string", "n": "bigint"}) == {"k": "string", "who": "string"}


def test_a_program_without_a_form_in_sql_has_a_reason():
    program = counted([ROWS])
    assert "TUMBLE(TABLE p0_a" in script(program)
    sliding = replace(program, steps=(SOURCE, replace(program.steps[1], shape="sliding")))
    with pytest.raises(Unwritten, match="a window of the kind sliding"):
        as_sql(sliding)


def test_a_comparison_shows_a_row_that_lacks_and_one_that_came_too_early():
    program = counted([ROWS], delay=60)
    (name,) = program.sink_names()
    rows = [row for _, row in Oracle(program).sink(program.sinks[0])]
    assert differences(program, {name: [[], rows]}) == ""
    assert "missing 1" in differences(program, {name: [[], rows[1:]]})
    assert "batch 0: surplus 3" in differences(program, {name: [rows, []]})


def test_a_smaller_program_has_one_step_less_and_an_oracle():
    condition = t.Compare("n", ">", 1)
    steps = (SOURCE, p.Filter("s2", "a", condition, "sql"), p.Select("s3", "s2", ("key",)))
    program = p.Program(0, steps, (p.Sink("s3", "append"),), ({"a": ROWS},))
    assert [[step.name for step in each.steps] for each in fewer_steps(program)] == [["a", "s3"], ["a", "s2"]]
    assert all(sound(each) for each in fewer_steps(program))
