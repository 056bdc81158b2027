"""Dead letters of a pipeline that begins anew: it reads its records again, so none of before may count beside them."""

import shutil
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder
from rs_assets.engine.sink.dead_letters import UNDONE


@pytest.fixture
def run(options, tmp_path):
    """Copies the files of some folders, each of which has a bad one; the query is called after all of them."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bad.json").write_text("not json\n")

    def run(*names, **how):
        builder = StreamBuilder.data_stream("shop", "copied")
        first, *others = [
            builder.from_file(tmp_path / name, schema="n bigint", name=name, bad_records="dead_letter")
            for name in names
        ]
        stream = first.union(*others) if others else first
        stream.to_delta("out", name="out").build().run(replace(options, **how))

    return run


@pytest.fixture
def letters(options):
    """The letters of each query that count, with its generation."""

    def letters():
        rows = DeltaTable(options.home.dead_letters).to_pyarrow_table().to_pylist()
        return sorted((row["generation"], row["query"]) for row in rows if row[UNDONE] is None)

    return letters


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
def test_a_new_generation_undoes_letters_of_queries_that_are_called_otherwise_now(run, letters, options, lost):
    run("a")
    assert letters() == [(1, "a")]
    if lost:
        shutil.rmtree(options.home.job("shop", "copied"))
    run("a", "b", new_generation=True)
    assert letters() == [(2, "a_b")] * 2


def test_letters_of_a_query_that_was_taken_out_stand_while_others_go_on(run, letters):
    run("a")
    run("a", "b")
    run("b")
    assert letters() == [(1, "a"), (1, "a_b")]
