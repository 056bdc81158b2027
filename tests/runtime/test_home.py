"""A home or a table is where its path says, or it is refused with the character that is in the way."""

from pathlib import Path

import pytest

from rs_assets import StreamBuilder
from rs_assets.common.home import Home
from rs_assets.errors import ConfigurationError

ODD = ["#", "?", "%", "100%25", "[", "]", "*", "{", "}", "^", "|", "\\", "\n"]


@pytest.mark.parametrize("odd", ODD)
def test_a_home_that_delta_would_look_for_elsewhere_is_refused(monkeypatch, tmp_path, odd):
    monkeypatch.setenv("RS_HOME", str(tmp_path / f"a{odd}b"))
    with pytest.raises(ConfigurationError, match="reads? as something else") as refused:
        Home.default()
    assert "use a path without" in refused.value.remedy


@pytest.mark.parametrize("odd", ODD)
def test_so_is_the_path_of_a_table(odd):
    stream = StreamBuilder.data_stream("shop", "trip").from_array([{"n": 1}], schema="n bigint")
    with pytest.raises(ConfigurationError, match="reads? as something else"):
        stream.to_delta(f"/data/a{odd}b/t")


@pytest.mark.parametrize("name", ["r s", "ä日", "a+b,c=d;e@f&g~h'i!j(k)"])
def test_other_names_are_as_good_as_any(tmp_path, name):
    from rs_assets.catalog.catalog import Catalog, operation

    home = Home(tmp_path / name)
    for _ in range(2):
        Catalog(home.catalog).append("operations", [operation("p", generation=1, run_id="r", kind="k", summary="s")])
    assert (tmp_path / name / "catalog" / "operations" / "_delta_log").is_dir()
    assert len(Catalog(home.catalog).rows("operations")) == 2


def test_a_uri_is_no_home(monkeypatch):
    monkeypatch.setenv("RS_HOME", "s3://bucket/rs")
    with pytest.raises(ConfigurationError, match="the home is a URI") as refused:
        Home.default()
    assert "RS_SAVEPOINTS" in refused.value.remedy


def test_a_relative_home_is_meant_from_where_it_was_named(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    home = Home(Path("rs"))
    monkeypatch.chdir("/")
    assert home.root == tmp_path / "rs"
