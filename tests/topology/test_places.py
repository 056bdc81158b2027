"""A pipeline never reads what it writes, whatever the place is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rs_assets import StreamBuilder
from rs_assets.errors import TopologyError
from rs_assets.stream.data_stream import DataStream

Step = Callable[[Path], str]


def files(path: str) -> Callable[[Path], DataStream]:
    return lambda root: _begin().from_file(f"{root}/{path}", schema="id long")


def _begin() -> StreamBuilder:
    return StreamBuilder.data_stream("shop", "places")


OWN = [
    (lambda root: _begin().from_delta(f"{root}/t"), lambda s, root: s.to_delta(f"file://{root}/t")),
    (lambda root: _begin().from_delta(f"{root}/link"), lambda s, root: s.to_delta(f"{root}/t/")),
    (lambda root: _begin().from_delta(f"{root}/x/../t"), lambda s, root: s.to_delta(f"{root}/link")),
    (lambda root: _begin().from_delta("orders"), lambda s, root: s.to_delta("orders")),
    (files("in"), lambda s, root: s.to_file(f"{root}/in/out")),
    (files("in"), lambda s, root: s.to_delta(f"{root}/in/table")),
    (files("t"), lambda s, root: s.to_file(f"{root}/link")),
    (files("*"), lambda s, root: s.to_file(f"{root}/out")),
    (files("out/*/*.json"), lambda s, root: s.to_file(f"{root}/out")),
    (
        lambda root: _begin().from_sqlite(f"{root}/shop.db", "orders", schema="id long"),
        lambda s, root: s.to_sqlite(f"{root}/shop.db", "Orders"),
    ),
]
OTHERS = [
    (lambda root: _begin().from_delta(f"{root}/t"), lambda s, root: s.to_delta(f"file://{root}/u")),
    (files("in"), lambda s, root: s.to_file(f"{root}/out")),
    (files("*.jsonl"), lambda s, root: s.to_file(f"{root}/out")),
    (files("in/*"), lambda s, root: s.to_file(f"{root}/out")),
]


@pytest.mark.parametrize(("read", "write"), OWN)
def test_build_output_that_a_source_reads_is_refused(tmp_path: Path, read, write) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "link").symlink_to("t")
    with pytest.raises(TopologyError, match="reads: (it would read its own rows|each run would read)"):
        write(read(tmp_path), tmp_path).build()


@pytest.mark.parametrize(("read", "write"), OTHERS)
def test_build_output_beside_what_is_read_is_taken(tmp_path: Path, read, write) -> None:
    write(read(tmp_path), tmp_path).build()


def test_build_two_outputs_in_one_place_are_refused_by_any_name(tmp_path: Path) -> None:
    one = _begin().from_array([{"id": 1}]).to_delta(f"{tmp_path}/t", name="one")
    with pytest.raises(TopologyError, match="share the target"):
        one.to_delta(f"file://{tmp_path}/t", mode="complete", name="two").build()


@pytest.mark.parametrize("read", ["in", "./in", "in/*.json", "{root}/in"])
@pytest.mark.parametrize("written", ["in", "./in"])
def test_build_a_folder_without_a_slash_is_one_of_the_project(tmp_path: Path, monkeypatch, read, written) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    stream = _begin().from_file(read.format(root=tmp_path).replace("*.json", "*/*.json"), schema="id long")
    with pytest.raises(TopologyError, match="each run would read"):
        stream.to_file(written).build()
    # A table of that name lies in the home.
    stream.to_file("out", name="files").to_delta("out", name="table").build()
    with pytest.raises(TopologyError, match="share the target"):
        stream.to_file("out", name="one").to_file("./out", name="two").build()
