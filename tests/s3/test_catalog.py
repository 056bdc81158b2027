"""The catalog in S3: homes without a folder in common know the same pipelines, and one of them runs each."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from rs_assets import StreamBuilder
from rs_assets.catalog.catalog import OTHERS, TABLES, Catalog
from rs_assets.catalog.deployments import DeploymentTable, stamp_of
from rs_assets.catalog.offsets import storage_named
from rs_assets.catalog.tidying import tidy_catalog
from rs_assets.common.home import Home
from rs_assets.connectors.delta.log.store import is_table
from rs_assets.errors import CheckpointError, PipelineBusyError
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.options import RunOptions
from tests.s3.rows import numbers_in


@pytest.mark.long
def test_two_homes_know_one_pipeline_and_one_runs_it(bucket, tmp_path: Path, driver, monkeypatch):
    monkeypatch.setenv("RS_CATALOG", f"{bucket}/catalog")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    source = StreamBuilder.data_stream("shop", "copied").from_file(tmp_path / "in", schema="n bigint")
    pipeline = source.to_delta(f"{bucket}/out").build()
    first, second = (RunOptions(home=Home(tmp_path / name), driver=driver) for name in ("one", "two"))
    pipeline.run(first)
    assert not first.home.root.joinpath("catalog").exists()
    made = {name for name in (*TABLES, *OTHERS) if is_table(f"{bucket}/catalog/{name}")}
    counted = {"batch_counts", "batch_offsets"}
    assert made == {"checkpoints", "leases", "pipelines", "splits", "system_messages", *counted}
    with opened(pipeline.topology, first), pytest.raises(PipelineBusyError):
        pipeline.run(second)
    with pytest.raises(CheckpointError, match=r"the checkpoint of shop\.copied is gone; the catalog has generation 1"):
        pipeline.run(second)
    (tmp_path / "in" / "2.jsonl").write_text('{"n": 3}\n')
    pipeline.run(first)
    assert numbers_in(f"{bucket}/out") == [1, 2, 3]
    tidy_catalog(first.home.catalog, keep=timedelta(days=1))
    assert set(Catalog(first.home.catalog).compact(retention=timedelta(days=1))) == made
    storage = storage_named("delta", catalog=second.home.catalog)
    assert sorted({row.batch_id for row in storage.rows()}) == [0, 1]
    assert {row.batch_id for row in storage.newest(storage.rows()[0].source_key)} == {1}
    (query,) = {row["query"] for row in Catalog(second.home.catalog).rows("system_messages")}
    assert Catalog(second.home.catalog).newest_batch("shop.copied", query) == 1


def test_versions_are_deployed_there(bucket, monkeypatch, tmp_path):
    monkeypatch.setenv("RS_CATALOG", f"{bucket}/catalog")
    home = Home(tmp_path)
    table = DeploymentTable(home.deployments)
    assert stamp_of(home.deployments) == ""
    assert table.versions() == {}
    assert [table.add("shop.a", text=f"SELECT {n}") for n in (1, 2)] == [1, 2]
    assert [version.text for version in table.of("shop.a")] == ["SELECT 1", "SELECT 2"]
    assert stamp_of(home.deployments)
