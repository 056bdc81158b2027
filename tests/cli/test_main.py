"""The command line: what programs and people get."""

import importlib
import io
import json
import os
import pkgutil
import pty
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import click
import pytest
from click import ClickException
from click.testing import CliRunner
from dagster import (
    DagsterExecutionInterruptedError,
    DagsterInstance,
    DagsterRunStatus,
    SkipReason,
    build_sensor_context,
)
from rich.console import Console

from rs_assets import cli
from rs_assets.catalog.lease import Lease, read_lease
from rs_assets.cli.main import main
from rs_assets.cli.run import console
from rs_assets.common.home import Home
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.discovery import find_pipelines
from rs_assets.dagster.runs.launch import LaunchRequest
from rs_assets.dagster.sensors import recovery_sensor
from rs_assets.dagster.sensors.refusals import was_canceled
from rs_assets.recovery import forget_marker, restore_marker, rollback_marker
from rs_assets.runtime.job.small import SMALL_BYTES
from rs_assets.runtime.report import QueryReport, RunReport
from rs_assets.spark.driver import SparkDriver
from rs_assets.spark.settings import BRIEF_JAVA, small_java
from tests.dagster.projects import call, make_project

ROOT = Path(__file__).parents[2]
# Spark starts, a batch in flight ends and the checks of the run follow; on a machine with other work that takes long.
PATIENCE_S = 300


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of somebody's own, with a pipeline over a growing log."""
    (tmp_path / "log.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    code = (
        "from rs_assets import StreamBuilder\n"
        "stream = StreamBuilder.data_stream('shop', 'hits').from_file('log.jsonl', schema='n bigint', tail=True)\n"
        "pipeline = stream.to_delta('hits').build()\n"
    )
    return make_project(tmp_path, monkeypatch, module="hits", code=code)


def test_should_list_describe_and_tell_the_status(project):
    assert call("list") == (0, "shop.hits  file -> - -> hits_table  unbounded\n")
    code, text = call("list", "--json")
    assert (code, [row["pipeline"] for row in json.loads(text)]) == (0, ["shop.hits"])
    assert "flowchart LR" in call("describe", "hits", "--mermaid")[1]
    code, text = call("status", "hits", "--json")
    assert (code, json.loads(text)[0]["last_batch"]) == (0, -1)


def test_fork_of_a_job_without_a_namespace_is_of_the_same_one(project):
    code, text = call("fork", "hits", "--from", "nosuch")
    assert (code, "shop.nosuch" in text) == (1, True), text


def test_a_run_over_little_input_takes_the_java_of_small_runs(project, monkeypatch, tmp_path):
    taken = []

    def shared(settings):
        taken.append(settings.java_options)
        raise ClickException("no further")

    monkeypatch.setattr(SparkDriver, "shared", shared)
    assert call("run", "hits")[0] == 1
    with (tmp_path / "log.jsonl").open("ab") as log:
        log.truncate(SMALL_BYTES + 1)
    assert call("run", "hits")[0] == 1
    assert taken == [small_java(os.environ), BRIEF_JAVA]


@pytest.mark.parametrize(
    ("file", "content", "what"),
    [
        (
            restore_marker.FILE,
            "fork 20260101T000000Z-1",
            "the last fork of the job was interrupted; fork the savepoint",
        ),
        (rollback_marker.FILE, '{"generation": 2, "what": "a rewind"}', "the last rollback was interrupted: a rewind;"),
        (
            forget_marker.FILE,
            '{"salt": "", "digests": {}, "batches": {}, "switched": true}',
            "keys were being forgotten",
        ),
    ],
)
def test_status_warns_of_what_was_interrupted_while_nothing_runs(project, file, content, what):
    folder = Home.default().job("shop", "hits")
    folder.mkdir(parents=True)
    (folder / file).write_text(content)
    assert f"warning: shop.hits: {what}" in call("status", "hits")[1]
    with Lease.acquire(Home.default().leases, pipeline="shop.hits", run_id="r"):
        assert json.loads(call("status", "hits", "--json")[1])[0]["warnings"] == []


def test_should_tell_a_pipeline_that_was_killed_from_one_that_was_stopped_or_never_started(project):
    def state():
        shown, told = call("status", "hits", "--json"), call("status", "hits")
        return json.loads(shown[1])[0]["killed"], told[1]

    killed, text = state()
    assert (killed, "not started" in text) == (False, True)
    dies = (
        "import os, sys; from datetime import timedelta; from pathlib import Path\n"
        "from rs_assets.catalog.lease import Lease\n"
        "Lease.acquire(Path(sys.argv[1]), pipeline='shop.hits', run_id='r', ttl=timedelta(seconds=9))\n"
        "os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-c", dies, str(Home.default().leases)], check=False)
    assert done.returncode == 9
    killed, text = state()
    assert (killed, "killed" in text) == (True, True)
    with Lease.acquire(Home.default().leases, pipeline="shop.hits", run_id="s", ttl=timedelta(seconds=9)):
        assert "running" in state()[1]
    assert state()[0] is False


def test_should_name_what_there_is_when_asked_for_something_else(project):
    code, text = call("describe", "misses")
    assert (code, "there is no pipeline 'misses'" in text, "use one of: shop.hits" in text) == (1, True, True)
    code, text = call("describe", "hits", "-m", "no_such_module")
    assert (code, "there is no module 'no_such_module'" in text) == (1, True)


def test_should_tell_the_status_of_deployed_pipelines(project):
    (project / "totals.sql").write_text(
        "CREATE TABLE clicks (page STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
        "CREATE TABLE pages (page STRING) WITH ('connector' = 'delta', 'table' = 'pages');\n"
        "INSERT INTO pages SELECT page FROM clicks\n"
    )
    assert call("deploy", "totals.sql", "--name", "shop.totals")[0] == 0
    assert [row["pipeline"] for row in json.loads(call("status", "--json")[1])] == ["shop.hits", "shop.totals"]
    assert [row["pipeline"] for row in json.loads(call("status", "totals", "--json")[1])] == ["shop.totals"]
    assert [row["pipeline"] for row in json.loads(call("status", "-m", "hits", "--json")[1])] == ["shop.hits"]


@pytest.mark.parametrize("file", ["more.py", "jobs/more.py", "jobs/__init__.py"])
def test_should_say_how_to_list_the_module_of_a_pipeline(project, monkeypatch, file):
    (project / file).parent.mkdir(exist_ok=True)
    (project / file).write_text((project / "hits.py").read_text().replace("'hits'", "'misses'"))
    (project / "other" / "bin").mkdir(parents=True)
    (project / "other" / "pyvenv.cfg").touch()
    (project / "other" / "bin" / "copy.py").write_text((project / file).read_text())
    code, text = call("describe", "shop.misses")
    [line] = re.findall(r"write under \[tool.rs_assets\]: (.*); or, for once: (-m .*)$", text, re.MULTILINE)
    assert (code, str(project / "pyproject.toml") in text) == (1, True)
    monkeypatch.syspath_prepend(str(project))
    for module in ("more", "jobs", "jobs.more"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    assert call("describe", "misses", *line[1].split())[0] == 0
    settings = (project / "pyproject.toml").read_text()
    (project / "pyproject.toml").write_text(settings.replace('pipelines = ["hits"]', line[0]))
    assert [row["pipeline"] for row in json.loads(call("list", "--json")[1])] == ["shop.hits", "shop.misses"]


def test_should_say_how_to_name_pipelines_where_there_are_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, text = call("list")
    assert (code, "no pipelines are configured" in text, "-m package.module" in text) == (1, True, True)
    (tmp_path / "pyproject.toml").write_text("= no toml")
    assert "does not parse" in call("list")[1]


def test_should_find_pipelines_beside_definitions_of_dagster(project):
    with (project / "hits.py").open("a") as module:
        module.write("from rs_assets import build_definitions\ndefs = build_definitions([pipeline])\n")
    assert call("list") == (0, "shop.hits  file -> - -> hits_table  unbounded\n")


def test_should_not_choose_between_tables_of_one_name(project):
    (project / "hits.py").write_text(
        "from rs_assets import StreamBuilder\n"
        "one, two = (\n"
        "    StreamBuilder.data_stream(space, 'hits').from_array([{'n': 1}]).to_delta('hits').build()\n"
        "    for space in ('shop', 'web')\n"
        ")\n"
    )
    code, text = call("show", "hits")
    assert (code, "several tables are called 'hits'" in text, "shop.hits, web.hits" in text) == (1, True, True)
    assert "'web.hits' does not exist yet" in call("show", "web.hits")[1]


# What makes a command slow: packages of hundreds of modules each.
HEAVY = {
    "pyspark",
    "dagster",
    "delta",
    "deltalake",
    "pandas",
    "pyarrow",
    "numpy",
    "sqlalchemy",
    "kafka",
    "grpc",
    "rich",
}
# About 240 are ours: a connector is three or four. sqlglot has 50, with those of Python that it loads.
MOST_MODULES = 530


def test_list_loads_few_modules_and_no_large_package():
    program = "import sys\nfrom rs_assets.cli.main import main\ntry: main()\nfinally: print(*sys.modules)"
    listed = subprocess.check_output([sys.executable, "-c", program, "list"], cwd=ROOT, text=True)
    modules = listed.splitlines()[-1].split()
    assert "rs_assets.cli.main" in modules
    assert len(modules) < MOST_MODULES
    assert not HEAVY & {name.partition(".")[0] for name in modules}


def test_every_command_of_a_module_should_be_one_of_the_command_line():
    context, there = click.Context(main), set()
    for found in pkgutil.walk_packages(cli.__path__, "rs_assets.cli."):
        module = importlib.import_module(found.name)
        commands = [each for each in vars(module).values() if isinstance(each, click.Command) and each is not main]
        there |= {command.name for command in commands}
    assert there == set(main.list_commands(context))
    assert all(main.get_command(context, name).name == name for name in there)
    assert main.get_command(context, "unknown") is None


def test_the_help_names_each_command_in_a_line():
    done = CliRunner().invoke(main, ["--help"], terminal_width=80)
    lines = [line.split(maxsplit=1) for line in done.output.splitlines() if line.startswith("  ")]
    named = [line[0] for line in lines if line[0] in main.list_commands(click.Context(main))]
    assert sorted(named) == main.list_commands(click.Context(main))
    assert not [line for line in lines if line[-1].endswith("...")]
    assert max(map(len, done.output.splitlines())) <= 80


def loaded(program, tmp_path, *arguments):
    """The packages that a process has loaded at its end, in a home without anything."""
    environment = {**os.environ, "RS_HOME": str(tmp_path / "rs"), "DAGSTER_HOME": str(tmp_path)}
    command = [sys.executable, "-c", f"import sys\n{program}\nprint('loaded', *sys.modules)", *arguments]
    shown = subprocess.check_output(command, cwd=ROOT, env=environment, text=True)
    names = {name for name in shown.splitlines()[-1].split() if name == "rs_assets.sql" or "." not in name}
    return names & {*HEAVY, "alembic", "fsspec", "rs_assets.sql"}


def test_status_loads_no_dagster_and_no_pandas(tmp_path):
    program = "from rs_assets.cli.main import main\nmain(standalone_mode=False)"
    assert loaded(program, tmp_path, "status") <= {"pyspark", "pyarrow", "numpy", "deltalake", "rich"}


def test_the_definitions_load_no_pandas_and_no_sqlalchemy(tmp_path):
    needed = {"pyspark", "pyarrow", "numpy", "deltalake", "dagster", "fsspec"}
    assert loaded("import pipelines.definitions", tmp_path) <= needed


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_should_drain_and_give_its_lease_back_when_it_is_told_to_stop(project, number):
    environment = {**os.environ, "RS_HOME": str(project / "rs"), "DAGSTER_HOME": str(project / "dagster")}
    command = [sys.executable, "-m", "rs_assets.cli.main", "start", "hits"]
    commits = project / "rs" / "checkpoints" / "shop" / "hits" / "g0001" / "file" / "checkpoint" / "commits"
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as started:
        deadline = time.monotonic() + PATIENCE_S
        while not (commits / "0").exists() and started.poll() is None and time.monotonic() < deadline:
            select_briefly()
        started.send_signal(number)
        output, _ = started.communicate(timeout=PATIENCE_S)
    assert started.returncode == 0, output
    assert "drained and stopped; the next start goes on from here" in output
    assert "Traceback" not in output
    assert read_lease(project / "rs" / "catalog" / "leases", "shop.hits").released
    code, text = call("status", "hits", "--json")
    assert code == 0
    assert json.loads(text)[0]["running"] is None
    with DagsterInstance.from_config(str(project / "dagster")) as instance:
        [run] = instance.get_runs()
        assert run.status == DagsterRunStatus.SUCCESS
        assert was_canceled(instance, run.run_id)
        context = build_sensor_context(instance=instance)
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("RS_HOME", str(project / "rs"))
            assert isinstance(recovery_sensor(StreamAssets.of(find_pipelines(())[0]))(context), SkipReason)


def test_a_run_that_finds_nothing_new_should_start_no_spark_and_say_so_in_dagster(project, driver, monkeypatch):
    def refused(*_):
        raise AssertionError("Spark was called")

    monkeypatch.setenv("RS_HOME", str(project / "rs"))
    monkeypatch.setenv("DAGSTER_HOME", str(project / "dagster"))
    code, text = call("run", "hits", "--json")
    assert (code, json.loads(text.splitlines()[-1])["rows_in"]) == (0, 2)
    monkeypatch.setattr(SparkDriver, "call", refused)
    monkeypatch.setattr(SparkDriver, "prepare", refused)
    code, text = call("run", "hits")
    assert (code, "nothing new since checkpoint 0, found without Spark" in text) == (0, True), text
    key = StreamAssets.of(find_pipelines(())[0]).key("hits_table")
    with DagsterInstance.from_config(str(project / "dagster")) as instance:
        assert [run.status for run in instance.get_runs()] == [DagsterRunStatus.SUCCESS] * 2
        [observed] = instance.fetch_observations(key, limit=9).records
        assert observed.asset_observation.description == "nothing new since checkpoint 0"
        assert observed.asset_observation.metadata["checkpoint"].value == "0"
        assert len(instance.fetch_materializations(key, limit=9).records) == 1


def test_should_say_in_a_line_that_a_run_was_told_to_stop_twice(project, monkeypatch):
    def interrupted(*_, **__):
        raise DagsterExecutionInterruptedError

    monkeypatch.setattr(console, "launch", interrupted)
    with pytest.raises(ClickException, match="stopped at once; the next run goes on from its last commit"):
        console.run_and_show(find_pipelines(())[0], LaunchRequest(), plain=False, as_json=True)


def test_sums_of_several_queries_have_a_line_each():
    made = {"pipeline": "shop.pages", "run_id": "r", "generation": 1, "seconds": 2.0, "sealed": False}
    tens = QueryReport(query="tens", rows_in=10, rows_dead=1, rows_late=2, rows_out={"a": 3}, batches=1)
    users = QueryReport(query="users", rows_in=10, rows_dead=1, rows_out={"b": 4}, batches=1)

    def shown(*queries):
        out = Console(file=io.StringIO(), width=200)
        console.show_report(RunReport(**made, queries=queries), out)
        return out.file.getvalue().split("\n")[1:-1]

    assert shown(tens) == ["10 rows in = 7 used + 1 dead letter + 2 late; 3 rows out in 1 batch, 2.0 s"]
    sums, *lines = shown(tens, users)
    assert sums.endswith(" rows in; 7 rows out in 2 batches, 2.0 s")
    assert lines == [
        "  tens: 10 = 7 used + 1 dead letter + 2 late",
        "  users: 10 = 9 used + 1 dead letter + 0 late",
    ]


def test_the_command_is_named_by_its_path_if_the_shell_does_not_find_it(tmp_path, monkeypatch):
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "rs-assets").touch()
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert console.called() == ".venv/bin/rs-assets"
    monkeypatch.chdir(tmp_path / ".venv" / "bin")
    assert console.called() == "rs-assets"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_should_say_in_a_line_that_a_run_was_told_to_stop(project):
    """Between two of its batches; the next one goes on from there."""
    (project / "in").mkdir()
    for number in range(3):
        (project / "in" / f"{number}.json").write_text(f'{{"n": {number}}}\n')
    (project / "hits.py").write_text(
        "import time\n"
        "from rs_assets import StreamBuilder\n"
        "stream = StreamBuilder.data_stream('shop', 'hits').from_file('in', schema='n bigint', max_files_per_batch=1)\n"
        "pipeline = stream.map(lambda row: time.sleep(3) or row, schema='n bigint').to_delta('hits').build()\n"
    )
    environment = {**os.environ, "RS_HOME": str(project / "rs"), "DAGSTER_HOME": str(project / "dagster")}
    command = [sys.executable, "-m", "rs_assets.cli.main", "run"]
    commits = project / "rs" / "checkpoints" / "shop" / "hits" / "g0001" / "file" / "checkpoint" / "commits"
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, env=environment, text=True, **streams) as started:
        deadline = time.monotonic() + PATIENCE_S
        while not (commits / "0").exists() and started.poll() is None and time.monotonic() < deadline:
            select_briefly()
        started.send_signal(signal.SIGINT)
        output, _ = started.communicate(timeout=PATIENCE_S)
    told = "Error: terminated before the end of its input; the next run goes on from here"
    assert (started.returncode, told in output, "Traceback" in output) == (1, True, False), output


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_should_end_by_ctrl_c_in_a_terminal_with_a_sentence_of_its_own(project):
    """The terminal sends it to all that was started there, the helpers of Dagster among them."""
    environment = {**os.environ, "RS_HOME": str(project / "rs"), "DAGSTER_HOME": str(project / "dagster")}
    child, terminal = pty.fork()
    if child == 0:
        os.execve(sys.executable, [sys.executable, "-m", "rs_assets.cli.main", "start", "hits"], environment)
    commits = project / "rs" / "checkpoints" / "shop" / "hits" / "g0001" / "file" / "checkpoint" / "commits"
    shown, told = b"", False
    with os.fdopen(terminal, "r+b", buffering=0) as screen, suppress(OSError):
        # Reading what ended is an error of Linux.
        while part := screen.read(65_536):
            shown += part
            if not told and (commits / "0").exists():
                told = bool(screen.write(b"\x03"))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    text = shown.decode()
    assert (code, "Traceback" in text, "KeyboardInterrupt" in text) == (0, False, False), text
    assert "drained and stopped; the next start goes on from here" in text


@pytest.mark.long
@pytest.mark.timeout(900)
def test_start_whose_terminal_is_closed_drains_and_stops(project):
    """Also where it prints and draws: what was shown there goes nowhere then."""
    environment = {**os.environ, "RS_HOME": str(project / "rs"), "DAGSTER_HOME": str(project / "dagster")}
    child, terminal = pty.fork()
    if child == 0:
        os.execve(sys.executable, [sys.executable, "-m", "rs_assets.cli.main", "start", "hits"], environment)
    commits = project / "rs" / "checkpoints" / "shop" / "hits" / "g0001" / "file" / "checkpoint" / "commits"
    deadline = time.monotonic() + PATIENCE_S
    while not (commits / "0").exists() and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            os.read(terminal, 65_536)
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert read_lease(project / "rs" / "catalog" / "leases", "shop.hits").released
    with DagsterInstance.from_config(str(project / "dagster")) as instance:
        [run] = instance.get_runs()
        assert run.status == DagsterRunStatus.SUCCESS
        assert was_canceled(instance, run.run_id)


def select_briefly():
    """Let the other process work."""
    import threading

    threading.Event().wait(0.2)
