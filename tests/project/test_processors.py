"""The jar of the processors: made once, by the compiler that comes with pyspark, or told why not."""

import zipfile
from types import SimpleNamespace

import pytest

from rs_assets.errors import ConfigurationError
from rs_assets.operators.window.durations import Time
from rs_assets.operators.window.spec import TumblingWindow
from rs_assets.operators.window.trigger import Firing
from rs_assets.operators.window.trigger_operator import FiredWindows
from rs_assets.spark.processor import library as module


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder for jars, and one for sources."""
    sources = tmp_path / "scala"
    sources.mkdir()
    monkeypatch.setattr(module, "SOURCES", sources)
    monkeypatch.setenv(module.SPARK.variable, str(tmp_path / "jars"))
    module._place.cache_clear()
    yield tmp_path
    module._place.cache_clear()


@pytest.mark.slow
def test_it_is_made_once_and_anew_when_its_sources_change(place):
    source = place / "scala" / "One.scala"
    source.write_text("package one\nclass One\n")
    made = module.library()
    assert "one/One.class" in zipfile.ZipFile(made).namelist()
    assert [file.name for file in made.parent.iterdir()] == [made.name]
    before = made.stat().st_mtime_ns
    assert module.library() == made
    assert made.stat().st_mtime_ns == before
    source.write_text("package one\nclass Two\n")
    module._place.cache_clear()
    assert module.library() != made


@pytest.mark.slow
def test_what_does_not_compile_is_told(place):
    (place / "scala" / "Wrong.scala").write_text("class Wrong extends org.apache.spark.NotThere\n")
    with pytest.raises(ConfigurationError, match=r"(?s)do not compile against pyspark .*NotThere.*remedy: install"):
        module.library()
    assert list((place / "jars").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told(place):
    (place / "jars").write_text("a file")
    with pytest.raises(ConfigurationError, match="RS_JARS"):
        module.library()


class Jvm(SimpleNamespace):
    __hash__ = object.__hash__


def test_a_session_without_the_jar_is_told():
    """The gateway gives a package for every name that is no class."""
    package = SimpleNamespace(FiringWindows=SimpleNamespace())
    jvm = Jvm(org=SimpleNamespace(apache=SimpleNamespace(spark=SimpleNamespace(sql=SimpleNamespace()))))
    jvm.org.apache.spark.sql.rsassets = package
    frame = SimpleNamespace(sparkSession=SimpleNamespace(_jvm=jvm))
    window = TumblingWindow.of(Time.seconds(1), "ts")
    windows = FiredWindows(
        window=window, firing=Firing(late="totals"), emit="on_window_close", water_mark=Time.seconds(0)
    )
    with pytest.raises(ConfigurationError, match=r"(?s)lacks the processors.*spark\.jars"):
        windows.rows(frame)
