"""Random programs against plain Python; `python -m tests.programs` runs more of them."""

from dataclasses import replace

import pytest

from tests.programs import program as p
from tests.programs import stored
from tests.programs import terms as t
from tests.programs.campaign import RIGHT, built, built_of_sql, fewer_steps, sound, verdicts
from tests.programs.compared import differences
from tests.programs.drawing import FAMILIES, GROUP, drawn
from tests.programs.oracle import Oracle
from tests.programs.sql_form import as_sql


def wrong(seeds, driver, families=()):
    programs = [drawn(seed, families) for seed in seeds]
    found = verdicts(programs, driver)
    return {label: verdict for label, verdict in found.items() if verdict[0] != RIGHT}


@pytest.mark.canary
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")
def test_programs_of_fixed_seeds_give_the_rows_of_plain_python(driver):
    assert wrong(range(GROUP, GROUP + 2), driver) == {}


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
def test_programs_in_sql_give_the_rows_of_plain_python(driver):
    drawn_ones = (as_sql(drawn(seed, ("stateless", "window", "join"))) for seed in range(24))
    programs = [replace(program, restart=1) for program in drawn_ones if program is not None]
    found = verdicts(programs, driver, built_of_sql)
    assert {label: verdict for label, verdict in found.items() if verdict[0] != RIGHT} == {}
    assert len(programs) > 5


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
@pytest.mark.parametrize("family", FAMILIES)
def test_programs_of_each_family_give_the_rows_of_plain_python(driver, family):
    first = GROUP * list(FAMILIES).index(family)
    assert wrong(range(first, first + GROUP), driver, (family,)) == {}


def test_programs_of_a_seed_are_the_same_for_ever_and_their_code_is_python():
    for seed in range(20):
        program = drawn(seed)
        assert program == drawn(seed)
        compile(program.text(), program.label, "exec")


def test_programs_of_fixed_seeds_are_not_refused_and_have_all_steps():
    programs = [drawn(seed, (family,)) for seed in range(16) for family in FAMILIES]
    for program in programs[: 2 * len(FAMILIES)]:
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
