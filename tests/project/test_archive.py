"""Spark's classes, archived by Java: found again by the next start, and harmless where they do not serve."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from rs_assets.cli.setup import rehearsal
from rs_assets.errors import EngineError
from rs_assets.spark import archive
from rs_assets.spark.jars import jars_of_pyspark
from rs_assets.spark.java import java_home
from rs_assets.spark.processor.library import session_jars
from rs_assets.spark.settings import CLASS_PATH, SparkSettings

# A program of few classes that is in pyspark's jars.
CLASSES = str(jars_of_pyspark("ivy-*.jar")[-1])
PROGRAM = ("org.apache.ivy.Main", "-version")
JARS = (Path("/some/delta.jar"),)


def started(options, *more):
    """What Java tells that runs the program with `options`."""
    command = [str(java_home() / "bin" / "java"), *shlex.split(options), *more, "-cp", CLASSES, *PROGRAM]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return run.stdout


def from_archive(options):
    """How many classes came from the upper one of the two archives."""
    return started(options, "-Xlog:class+load").count("shared objects file (top)")


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """A Python without an archive, in a folder whose name has a space."""
    monkeypatch.setattr(archive.sys, "prefix", str(tmp_path / "my env"))
    return tmp_path / "my env"


def test_a_java_starts_with_the_classes_that_another_loaded(prefix):
    assert archive.options(JARS) == ""
    folder = archive.make(JARS, started)
    assert folder.is_relative_to(prefix)
    options = archive.options(JARS)
    assert from_archive(options) > 10
    assert from_archive("") == 0
    # Once is enough, and another list of jars has another class path.
    assert archive.make(JARS, pytest.fail) == folder
    assert archive.options((Path("/some/newer.jar"),)) == ""


def test_only_the_newest_archive_is_kept(prefix):
    first = archive.make(JARS, started)
    second = archive.make((Path("/some/newer.jar"),), started)
    assert not first.exists()
    assert [path.name for path in second.parent.iterdir()] == [second.name]
    assert prefix.is_dir()


@pytest.mark.parametrize("name", ["java.jsa", "spark.jsa"])
def test_a_part_of_an_archive_is_not_used_and_made_again(prefix, name):
    part = archive.make(JARS, started) / name
    part.chmod(0o600)
    part.write_bytes(part.read_bytes()[:1000])
    # Java would refuse to start.
    assert archive.options(JARS) == ""
    archive.make(JARS, started)
    assert from_archive(archive.options(JARS)) > 10
    assert prefix.is_dir()


def test_the_archive_of_another_class_path_is_not_used_and_nothing_is_said(prefix, tmp_path):
    archive.make(JARS, started)
    java = str(java_home() / "bin" / "java")
    given = [java, *shlex.split(archive.options(JARS)), "-cp", str(tmp_path), "-version"]
    told = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for command in (given, [java, "-cp", str(tmp_path), "-version"])
    ]
    assert told[0] == told[1]
    assert prefix.is_dir()


def test_a_java_that_wrote_none_is_told_and_tried_again(prefix):
    with pytest.raises(EngineError, match="wrote no archive"):
        archive.make(JARS, lambda _: None)
    assert archive.options(JARS) == ""
    archive.make(JARS, started)
    assert from_archive(archive.options(JARS)) > 10
    assert prefix.is_dir()


def test_the_set_up_goes_on_without_an_archive(monkeypatch, tmp_path):
    (tmp_path / "share").write_text("a file where a folder has to be")
    monkeypatch.setattr(archive.sys, "prefix", str(tmp_path))
    assert rehearsal.archive_classes().startswith("not archived, each start of Spark takes some seconds longer: ")


def test_spark_is_started_with_the_archive(spark):
    options = archive.options(session_jars())
    if not options:
        pytest.skip("the set-up made no archive here")
    assert options in spark.conf.get("spark.driver.extraJavaOptions")


def test_jars_stand_before_what_a_user_adds_to_the_class_path():
    settings = SparkSettings(master="local[2]", extra={CLASS_PATH: "/mine.jar", "spark.jars": "/more.jar"})
    conf = settings.conf((Path("/a.jar"), Path("/b.jar")))
    first, second, *sparks, last = conf[CLASS_PATH].split(":")
    assert (first, second, last) == ("/a.jar", "/b.jar", "/mine.jar")
    # Each of Spark's once.
    assert sorted(sparks) == [str(jar) for jar in jars_of_pyspark("*.jar")]
    assert conf["spark.jars"] == "/more.jar"


def test_the_jars_of_a_cluster_are_sent_to_it():
    conf = SparkSettings(master="local-cluster[2,1,1024]").conf((Path("/a.jar"), Path("/b.jar")))
    assert conf["spark.jars"] == "/a.jar,/b.jar"
    assert CLASS_PATH not in conf


def test_java_options_stand_beside_the_projects_own():
    options = SparkSettings(master="local[2]", lean=True, java_options="-Dmine=1").conf()[
        "spark.driver.extraJavaOptions"
    ]
    assert options.endswith(" -Dmine=1")
    assert "-Dlog4j2.configurationFile=" in options
    assert "-Xms64m" in options
