"""Dead letters of a pipeline that begins anew: it reads its records again, so none of before may count beside them."""

import shutil
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder
from rs_assets.connectors.dead_letters import UNDONE
from rs_assets.errors import RsError
from rs_assets.runtime.batch.work import BatchWork
from rs_assets.runtime.upkeep.savepoints import rewind


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
        pipeline = stream.to_delta("out", name="out").build()
        pipeline.run(replace(options, **how))
        return pipeline.topology

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
    # A letter has the name that its query began with, which lasts.
    assert letters() == [(1, "a"), (1, "a")]


def test_letters_that_a_query_wrote_while_it_had_other_sources_go_back_with_it(run, letters, options):
    run("a")
    run("a", "b")
    topology = run("b")
    rewind(topology, 0, options)
    assert letters() == [(1, "a")]


def test_a_batch_that_is_repeated_with_other_sources_writes_its_letters_once(run, letters, monkeypatch):
    """A run was killed between the letters of a batch and Spark's commit of it."""

    def killed(*_):
        raise OSError("the disk is away")

    run("a")
    with monkeypatch.context() as crash:
        crash.setattr(BatchWork, "_record", killed)
        with pytest.raises(RsError, match="the disk is away"):
            run("a", "b")
    assert len(letters()) == 2
    run("b")
    assert len(letters()) == 2
