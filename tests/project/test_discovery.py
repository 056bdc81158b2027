"""Modules with pipelines: what is wrong with one is told in two lines, and nothing is passed over in silence."""

import importlib
import importlib.util
import subprocess
import sys

import pytest
from click.testing import CliRunner

from rs_assets import StreamBuilder, build_definitions
from rs_assets.cli.main import main
from rs_assets.common.extras import EXTRAS
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.dagster.discovery import find_pipelines, pick
from rs_assets.errors import ConfigurationError, TopologyError

BEGIN = """
from rs_assets import StreamBuilder, Time, TumblingWindow
stream = StreamBuilder.data_stream("shop", "job").from_array([{"page": "/"}])
"""
MODULES = {
    "unbuilt": (BEGIN + "made = stream.to_print()", "without a pipeline", ".build()"),
    "unbuilt_beside": (
        BEGIN + "pipeline = stream.to_print().build()\n" + BEGIN.replace("stream =", "other ="),
        "'other' in the module",
        ".build()",
    ),
    "unbuilt_window": (
        BEGIN + "made = stream.window(TumblingWindow.of(Time.seconds(1))).count()\ndel stream",
        "'made' in the module",
        ".build()",
    ),
    "raises": ("def f():\n    return 1 / 0\n\nf()", "raised ZeroDivisionError: division by zero", "mend it there"),
    "imports": ("import no_such_package", "raised ModuleNotFoundError: No module named 'no_such_package'", "mend"),
    "misspelled": (BEGIN + "stream.filtr('page')", "has no method 'filtr'", "did you mean .filter?"),
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    def made(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, name, raising=False)
        return name

    return made


@pytest.mark.parametrize("name", MODULES)
def test_what_is_wrong_with_a_module_is_told(name, project):
    text, what, remedy = MODULES[name]
    with pytest.raises((ConfigurationError, TopologyError)) as caught:
        find_pipelines([project(name, text)])
    first, second = str(caught.value).splitlines()
    assert what in first
    assert remedy in second


def test_the_place_is_that_in_the_module(project):
    with pytest.raises(ConfigurationError) as caught:
        find_pipelines([project("raises", MODULES["raises"][0])])
    assert str(caught.value.facts["line"]).endswith("raises.py:2")


def test_streams_that_became_a_pipeline_may_stand_in_the_module(project):
    found = find_pipelines([project("built", BEGIN + "pipeline = stream.to_print().build()")])
    assert [pipeline.name for pipeline in found] == ["shop.job"]


def test_there_is_no_such_module():
    with pytest.raises(ConfigurationError, match="there is no module 'no.such'"):
        find_pipelines(["no.such"])


def test_a_column_of_spark_s_own_is_told_before_spark_runs(tmp_path):
    text = "from pyspark.sql import functions as F\nfrom rs_assets import StreamBuilder\n\nsmall = F.col('ms') > 1\n"
    (tmp_path / "columns.py").write_text(text)
    command = [sys.executable, "-m", "rs_assets.cli.main", "list", "-m", "columns"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert "needs a running Spark" in first
    assert "columns.py:4" in first
    assert "from rs_assets import F" in second


def test_definitions_are_of_pipelines():
    stream = StreamBuilder.data_stream("shop", "job").from_array([{"page": "/"}]).to_print()
    with pytest.raises(ConfigurationError, match="not a DataStream") as caught:
        build_definitions([stream])
    assert ".build()" in caught.value.remedy
    with pytest.raises(ConfigurationError, match="takes a list"):
        build_definitions(stream.build())


def test_a_module_may_hold_its_pipelines_in_a_list(project):
    text = """
from rs_assets import StreamBuilder
pipelines = [
    StreamBuilder.data_stream("shop", job).from_array([{"page": "/"}]).to_print().build() for job in ("one", "two")
]
"""
    found = find_pipelines([project("listed", text)])
    assert [pipeline.name for pipeline in found] == ["shop.one", "shop.two"]
    for name in ("shop.two", "two", "shop_two"):
        assert pick(found, name).name == "shop.two"
    with pytest.raises(ConfigurationError, match="there is no pipeline 'shop_three'"):
        pick(found, "shop_three")


def test_should_open_dagster_with_modules_that_have_pipelines_only(project, monkeypatch, tmp_path):
    """Dagster loads by itself what has definitions, and through `rs_assets.definitions` what has none."""
    built = BEGIN + "pipeline = stream.to_print().build()\ndel stream\n"
    plain = project("only_pipelines", built)
    own = project(
        "with_definitions", built + "from rs_assets import build_definitions\nd = build_definitions([pipeline])"
    )
    called = {}
    monkeypatch.setattr("rs_assets.cli.main._become", lambda command, env: called.update(command=command, env=env))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    assert CliRunner().invoke(main, ["ui", "-m", plain, "-m", own]).exit_code == 0
    targets = called["command"][called["command"].index("dev") + 1 : called["command"].index("-h")]
    assert targets == ["-m", own, "-m", "rs_assets.definitions"]
    monkeypatch.setenv("RS_MODULES", called["env"]["RS_MODULES"])
    loaded = importlib.reload(importlib.import_module("rs_assets.definitions")).defs
    assert "rs_spark" in loaded.resolve_job_def("shop_job_run").resource_defs


def test_dagster_takes_the_place_of_the_command_and_hears_what_ends_it():
    """A shell that begins a command in the background has it ignore Ctrl-C, and Dagster then ignores SIGTERM, too."""
    then = "import os, signal; print(os.getpid(), signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    first = f"""
import os, signal, sys
from rs_assets.cli.main import _become
signal.signal(signal.SIGINT, signal.SIG_IGN)
print(os.getpid())
_become([sys.executable, "-c", {then!r}], dict(os.environ))
"""
    done = subprocess.run([sys.executable, "-c", first], capture_output=True, text=True, check=True)
    before, after, hears = done.stdout.split()
    assert (after, hears) == (before, "True")


@pytest.mark.parametrize(
    ("extra", "act", "needs"),
    [
        ("ui", lambda: main(["ui"], standalone_mode=False), "the web page of Dagster"),
        ("kafka", lambda: KafkaCluster(bootstrap_servers="localhost:9092"), "Kafka"),
    ],
)
def test_should_name_the_extra_that_is_missing_and_the_command(extra, act, needs, monkeypatch, capsys):
    known = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == EXTRAS[extra] else known(name))
    try:
        act()
    except (ConfigurationError, SystemExit) as error:
        told = f"{error}{capsys.readouterr().err}"
    assert f"{needs} needs the extra '{extra}', which is not installed" in told
    assert f"pip install 'rs-assets[{extra}]'" in told
