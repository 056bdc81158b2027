"""A pipeline has one home: lost ones are brought back, copies and strangers are told from it, nothing is done twice."""

import shutil
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from rs_assets import StreamBuilder
from rs_assets.checkpoint import manifest as manifests
from rs_assets.connectors.delta import table as delta_table
from rs_assets.connectors.delta.table import properties
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import CheckpointError, LeaseLostError
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.upkeep import claims, savepoints
from tests.checkpoint.fabricate import FakeQuery
from tests.recovery.homes import FakeHome


@pytest.fixture
def home(tmp_path):
    (tmp_path / "in").mkdir()
    return FakeHome(tmp_path / "prod", tmp_path / "tables", tmp_path / "store")


def lose(home):
    shutil.rmtree(home.root)


# A home that was lost.


def test_a_lost_home_is_brought_back_by_one_command(home):
    home.start(3)
    home.save()
    for _ in range(5):
        home.start()
    lose(home)
    with pytest.raises(CheckpointError, match="has not run in this home, but there are savepoints of it") as refused:
        home.start()
    assert "rs-assets restore shop.trip" in refused.value.remedy
    assert home.restore().batches == {"file": 2}
    home.start(2)
    assert home.rows() == [0, 1, 2, 3, 4]
    assert home.manifest.generation == 2


def test_it_is_brought_back_above_all_that_the_sinks_remember(home):
    home.start()
    home.save()
    for _ in range(6):
        home.start()
    fence = f"{home.manifest.pipeline_id}/fence/out"
    token = DeltaTable(str(home.outputs / "out")).transaction_version(fence)
    lose(home)
    home.restore()
    assert home.manifest.token > token
    home.start()
    assert home.rows() == [0, 1]


def test_generations_of_a_lost_home_are_not_begun_again(home):
    """Its savepoint is of generation 1, but it has gone back twice since."""
    home.start(3)
    home.save()
    home.start(2)
    home.rewind(2)
    home.start(1)
    home.rewind(1)
    home.start(2)
    assert home.rows() == [0, 1, 2, 3]
    lose(home)
    home.restore()
    assert home.manifest.generation == 4
    home.start(2)
    assert home.rows() == [0, 1, 2, 3, 4]


def test_a_lost_home_without_savepoints_does_not_begin_from_nothing(home):
    home.start(3)
    lose(home)
    with pytest.raises(CheckpointError, match="has not run in this home, but its outputs were written") as refused:
        home.start()
    assert refused.value.facts["written_from"].endswith(str(home.root))
    assert "--new-generation" in refused.value.remedy
    assert home.rows() == [0, 1, 2]
    (home.outputs / "out").rename(home.outputs / "old")
    home.start()
    assert home.rows() == [0]


def test_a_new_generation_of_a_lost_home_replaces_what_that_wrote(home):
    home = replace(home, sinks=("out", "more"))
    home.start(3)
    home.rewind(1)
    home.start(2)
    shutil.rmtree(home.outputs / "more")
    lose(home)
    home.start(2, new_generation=True)
    assert home.rows() == home.rows("more") == [0, 1]
    assert home.manifest.generation > 2
    home.start()
    assert home.rows() == home.rows("more") == [0, 1, 2]


def test_another_pipeline_of_the_name_begins_where_it_is_wished_for(home, tmp_path):
    home.start(3)
    home.save()
    dev = replace(home, root=tmp_path / "dev", outputs=tmp_path / "dev_tables")
    with pytest.raises(CheckpointError, match="--new-generation"):
        dev.start()
    dev.start(new_generation=True)
    dev.start()
    assert dev.rows() == [0, 1]
    assert dev.manifest.pipeline_id != home.manifest.pipeline_id


def test_a_store_that_is_away_does_not_stop_a_first_start(home, tmp_path):
    (tmp_path / "file").write_text("no folder")
    home = replace(home, store=tmp_path / "file" / "store")
    home.start()
    assert home.rows() == [0]


@pytest.mark.parametrize("lost", ["leases", "catalog"])
def test_lost_leases_do_not_stand_in_the_way(home, lost):
    for _ in range(3):
        home.start()
    shutil.rmtree(home.root / "catalog" / ("leases" if lost == "leases" else ""))
    home.start()
    home.start()
    assert home.rows() == [0, 1, 2, 3, 4]
    assert home.manifest.token == 5


def test_so_for_a_manifest_from_before_claims_were_kept(home):
    for _ in range(3):
        home.start()
    shutil.rmtree(home.root / "catalog")
    table = str(home.outputs / "out")
    # Neither the manifest nor the table knows a claim.
    manifests.save(home.folder, replace(home.manifest, token=0, claims={}))
    rewritten = DeltaTable(table).to_pyarrow_table()
    shutil.rmtree(table)
    mark = BatchMark(home.manifest.pipeline_id, 1, "out", 2, 3)
    write_deltalake(table, rewritten, commit_properties=properties(mark))
    home.start()
    assert home.rows() == [0, 1, 2, 3]
    assert home.manifest.token == 4


def test_lost_checkpoints_are_recovered_by_the_next_start(home):
    home.start(3)
    home.save()
    home.start(2)
    shutil.rmtree(home.root / "checkpoints")
    home.start(1)
    assert home.rows() == [0, 1, 2, 3]


def test_lost_checkpoints_are_not_recovered_over_another_home(home, tmp_path):
    """The pipeline was brought elsewhere meanwhile; the old machine comes back without its checkpoints."""
    home.start(3)
    home.save()
    other = replace(home, root=tmp_path / "new")
    other.restore()
    other.start(2)
    shutil.rmtree(home.root / "checkpoints")
    with pytest.raises(CheckpointError, match="no longer has a checkpoint, but its outputs were written from another"):
        home.start()
    assert other.rows() == [0, 1, 2, 3, 4]
    other.start()
    assert other.rows() == [0, 1, 2, 3, 4, 5]


# Several pipelines of one name.


def test_a_home_restores_its_own_savepoints_only(home, tmp_path):
    home.start(4)
    mine = home.save()
    dev = replace(home, root=tmp_path / "dev", outputs=tmp_path / "dev_tables")
    dev.start(2, new_generation=True)
    theirs = dev.save()
    shutil.rmtree(home.root / "checkpoints")
    assert home.restore().id == mine.id
    home.start()
    assert home.rows() == [0, 1, 2, 3, 4]
    with pytest.raises(CheckpointError, match="is not the pipeline of the savepoint") as refused:
        home.restore(theirs.id)
    assert "restore it into a home of its own (RS_HOME, with this store in RS_SAVEPOINTS)" in refused.value.remedy
    own = replace(home, root=tmp_path / "own", outputs=tmp_path / "dev_tables")
    assert own.restore(theirs.id).id == theirs.id
    (home.store / "savepoints" / "shop" / "trip" / f"{mine.id}.json").unlink()
    with pytest.raises(CheckpointError, match="is not the pipeline of the savepoint"):
        home.restore()


def test_a_blank_home_does_not_choose_between_pipelines(home, tmp_path):
    home.start(4)
    mine = home.save()
    dev = replace(home, root=tmp_path / "dev", outputs=tmp_path / "dev_tables")
    dev.start(2, new_generation=True)
    theirs = dev.save()
    lose(home)
    with pytest.raises(CheckpointError, match="this home knows none of them") as refused:
        home.restore()
    assert refused.value.remedy == "name the savepoint by its id"
    for each in (mine, theirs):
        assert each.id in str(refused.value)
        assert each.origin in str(refused.value)
    home.restore(mine.id)
    home.start()
    assert home.rows() == [0, 1, 2, 3, 4]


def test_a_fork_of_a_name_that_two_pipelines_have_is_of_ones_own(home, tmp_path):
    home.start(2)
    mine = home.save()
    dev = replace(home, root=tmp_path / "dev", outputs=tmp_path / "dev_tables")
    dev.start(1, new_generation=True)
    dev.save()
    branch = StreamBuilder.data_stream("shop", "branch").from_file(tmp_path / "in", schema="n bigint", name="file")
    topology = branch.to_delta(str(tmp_path / "branch"), name="out").build().topology
    assert savepoints.fork(topology, ("shop", "trip"), home.options).id == mine.id


# Copies.


def test_a_copied_home_and_the_first_one_do_not_both_go_on(home):
    home.start(3)
    copy = home.copied("copy")
    copy.start()
    with pytest.raises(CheckpointError, match="written to since by a start") as refused:
        home.start()
    assert refused.value.facts["written_from"].endswith("copy")
    copy.start()
    assert copy.rows() == [0, 1, 2, 3, 4]


def test_a_copy_that_was_taken_in_the_middle_of_a_batch_cannot_pass_for_the_first(home):
    """Both have planned a batch 3 of their own: whoever finds the other's must not take it for its own."""
    home.start(3)
    copy = home.copied("copy")
    FakeQuery(home.folder / "g0001" / "file", partitions=0).plan(3)
    copy.start()
    for _ in range(5):
        with pytest.raises(CheckpointError, match="written to since"):
            home.start()
    assert copy.rows() == [0, 1, 2, 3]


def test_two_copies_that_run_at_once_do_not_take_each_others_batches_for_their_own(home):
    home.start(3)
    copy = home.copied("copy")
    topology = home.pipeline.topology
    with opened(topology, home.options) as first, opened(topology, copy.options) as second:
        assert first.held.token == second.held.token
        home.one_batch(first, FakeQuery(first.query_folder(first.plans[0]), partitions=0), 3)
        with pytest.raises(LeaseLostError, match="another home has written as shop.trip") as lost:
            copy.one_batch(second, FakeQuery(second.query_folder(second.plans[0]), partitions=0), 3)
        assert lost.value.facts["other_home"].endswith("prod")
        assert lost.value.remedy.startswith("continue in that home; or stop it there, then take the pipeline over here")
        home.one_batch(first, FakeQuery(first.query_folder(first.plans[0]), partitions=0), 4)
    assert home.rows() == [0, 1, 2, 3, 4]
    copy.rewind(2)
    copy.start()
    assert home.rows() == [0, 1, 2, 3]


@pytest.mark.parametrize("by", ["rewind", "restore"])
def test_the_remedy_brings_the_pipeline_back_from_a_copy(home, by):
    home.start(3)
    home.save()
    copy = home.copied("copy")
    copy.start(2)
    with pytest.raises(CheckpointError, match=f"rs-assets {by} shop.trip"):
        home.start()
    if by == "rewind":
        home.rewind(2)
    else:
        home.restore()
    assert home.rows() == [0, 1, 2]
    home.start()
    assert home.rows() == [0, 1, 2, 3]
    with pytest.raises(CheckpointError, match="written to since"):
        copy.start()


def test_a_new_generation_begins_afresh_from_a_copy_above_what_the_copy_began(home):
    home.start(3)
    copy = home.copied("copy")
    copy.rewind(0)
    copy.start(2)
    with pytest.raises(CheckpointError, match="--new-generation"):
        home.start()
    home.start(2, new_generation=True)
    assert home.rows() == [0, 1]
    assert home.manifest.generation == 3
    with pytest.raises(CheckpointError, match="written to since"):
        copy.start()


def test_a_moved_home_goes_on(home):
    home.start(2)
    moved = home.moved("elsewhere")
    moved.start()
    assert moved.rows() == [0, 1, 2]


def test_a_home_from_a_backup_does_not_go_on_behind_what_its_sinks_have(home):
    home.start(2)
    backup = home.copied("backup")
    home.start(2)
    lose(home)
    back = backup.moved("prod")
    with pytest.raises(CheckpointError, match="from a copy of this one") as refused:
        back.start()
    assert "rs-assets rewind" in refused.value.remedy
    back.rewind(1)
    back.start(2)
    assert back.rows() == [0, 1, 2, 3]


# Sinks that come and go, and ways back that are cut off.


def test_a_sink_that_was_taken_out_and_returns_is_still_ones_own(home):
    home = replace(home, sinks=("out", "more"))
    home.start()
    fewer = replace(home, sinks=("out",))
    for _ in range(3):
        fewer.start()
    home.start()
    assert home.rows("more") == [0, 4]


def test_start_goes_on_after_many_starts_that_wrote_nothing(home, monkeypatch):
    """A table of late rows may get none for months: the claim of its last writer is kept."""
    monkeypatch.setattr(claims, "CLAIMS_KEPT", 3)
    home.start()
    for _ in range(5):
        home.start(0)
    home.start()
    assert home.rows() == [0, 1]


def test_every_sink_is_asked_before_the_first_one_acts(home):
    home = replace(home, sinks=("out", "more"))
    home.start(3)
    copy = replace(home.copied("copy"), sinks=("out",))
    with opened(copy.pipeline.topology, copy.options) as session:
        # Another home has written to the second sink only.
        assert session.claim is not None
    other = replace(home, sinks=("more",))
    del other
    version = DeltaTable(str(home.outputs / "out")).version()
    stranger = replace(home.manifest, claims={**home.manifest.claims, "more": (1,)})
    manifests.save(home.folder, stranger)
    with pytest.raises(CheckpointError, match="written to since"):
        home.start()
    assert DeltaTable(str(home.outputs / "out")).version() == version


@pytest.mark.parametrize("moment", ["restore_savepoint", "_renumbered"])
def test_a_restore_that_is_cut_off_is_refused_until_it_is_repeated(home, monkeypatch, moment):
    home.start(3)
    home.save()
    home.start(2)
    lose(home)
    with monkeypatch.context() as crash:
        crash.setattr(savepoints, moment, lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            home.restore()
    with pytest.raises(CheckpointError, match="has not run in this home|was interrupted"):
        home.start()
    home.restore()
    home.start()
    assert home.rows() == [0, 1, 2, 3]


def test_a_batch_behind_ones_own_commit_does_not_search_the_log_for_others(home, monkeypatch):
    asked = []

    def check(table, mark, really=delta_table.check_fence):
        asked.append(mark.batch_id)
        really(table, mark)

    monkeypatch.setattr(delta_table, "check_fence", check)
    home.start(2)
    with opened(home.pipeline.topology, home.options) as session:
        writer = session.writer("out")
        asked.clear()
        for batch in (2, 3, 4):
            mark = home.mark(session, "out", batch)
            assert not writer.committed(mark)
            marker, rows = properties(mark), pa.table({"n": [batch]})
            writer._commit(
                mark, rows.schema, partial(write_deltalake, data=rows, mode="append", commit_properties=marker)
            )
        assert asked == [2], "the first time only"
        write_deltalake(writer.path, pa.table({"n": [0]}), mode="append")
        writer.committed(home.mark(session, "out", 5))
        assert asked == [2, 5], "somebody else has written"
