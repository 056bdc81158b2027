"""Dagster's home, where it is not what it should be."""

import pytest

from rs_assets import StreamBuilder
from rs_assets.connectors.memory.channel import MemoryChannel
from rs_assets.dagster.instance import ensure_home
from rs_assets.dagster.runs.launch import launch
from rs_assets.errors import ConfigurationError


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder that is Dagster's home."""
    monkeypatch.setenv("RS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    return tmp_path / "dagster"


def test_a_home_that_is_a_file_is_refused(home, monkeypatch):
    home.write_text("")
    with pytest.raises(ConfigurationError, match="Dagster's home cannot be written: File exists") as refused:
        ensure_home()
    assert refused.value.remedy == "let this user write there, or name another folder in DAGSTER_HOME"
    monkeypatch.setenv("DAGSTER_HOME", f"{home}-2")
    assert (ensure_home() / "dagster.yaml").is_file()


def test_a_run_that_dagster_cannot_store_is_refused_before_it_reads(home, driver, monkeypatch):
    found = MemoryChannel()
    rows = StreamBuilder.data_stream("shop", "stored").from_array([{"id": 1}])
    pipeline = rows.to_memory(found).build()
    # SQLite opens no folder, as it writes no file of another user.
    (home / "history" / "runs.db").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="Dagster cannot store its runs: unable to open database") as refused:
        launch(pipeline, "run")
    assert "or name another folder there" in refused.value.remedy
    assert found.rows() == []
    monkeypatch.setenv("DAGSTER_HOME", f"{home}-2")
    launch(pipeline, "run")
    assert found.rows() == [{"id": 1}]
