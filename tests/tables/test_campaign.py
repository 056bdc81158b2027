"""Tables on all ways back, by random histories: crashes in sinks, rewinds, rescales, savepoints.

orders +25 rows, crash behind the commit of a sink, started again -> the tables are what dictionaries say
"""

import pytest

from tests.tables.campaign import OPERATORS, Play, World
from tests.tables.campaign_sql import QUERIES, SqlWorld


def test_a_ranking_and_values_after_a_crash_and_a_rescale_equal_dictionaries(options, tmp_path, monkeypatch):
    world = World(options, tmp_path / "in", ("top", "reduced"), shown=("top",))
    play = Play(world, monkeypatch, 4)
    for step in ("advance", "crash", "rescale", "advance"):
        play.step(step)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(4))
def test_tables_of_all_operators_equal_dictionaries_after_each_step(options, tmp_path, monkeypatch, seed):
    names = [name for place, name in enumerate(OPERATORS) if place % 4 == seed]
    Play(World(options, tmp_path / "in", names, shown=names), monkeypatch, seed).run(steps=8)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(3))
def test_tables_of_all_statements_equal_those_of_duckdb_after_each_step(options, tmp_path, monkeypatch, seed):
    names = [name for place, name in enumerate(QUERIES) if place % 3 == seed]
    Play(SqlWorld(options, tmp_path / "in", names), monkeypatch, seed).run(steps=8)
