"""Wrong input of commands: refused in words, and what the words advise is taken. No Spark."""

import os
import subprocess
import sys

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from rs_assets.cli.main import main
from rs_assets.cli.rows.query_server import _url
from rs_assets.common.home import Home
from rs_assets.errors import ConfigurationError
from tests.dagster.projects import make_project
from tests.project.words import ROOT

CODE = """
from rs_assets import Rules, StreamBuilder

def lines(job):
    return StreamBuilder.data_stream("shop", job).from_file("in.jsonl", schema="k string, n bigint", tail=True)

judged = lines("judged").match(Rules.from_delta("judges"), name="judge").to_print().build()
served = lines("served").serve("last", keys=["k"]).build()
"""
SQL = """
CREATE TABLE a (k STRING, d STRING) WITH ('connector' = 'filesystem', 'path' = 'in.jsonl', 'format' = 'json');
CREATE TABLE b (k STRING) WITH ('connector' = 'print');
INSERT INTO b SELECT k FROM a WHERE d = '${day}';
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(tmp_path / "home"))
    (tmp_path / "hits.sql").write_text(SQL)
    (tmp_path / "served_only.py").write_text("from wrong_input import served\n")
    (tmp_path / "in.jsonl").write_text('{"k": "a", "n": 1}\n')
    return make_project(tmp_path, monkeypatch, module="wrong_input", code=CODE)


def asked(line):
    """The exit code and the output of a command; any error that is not one in words is raised."""
    done = CliRunner().invoke(main, line.split(), catch_exceptions=False)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("lag served --over inf", 2, "not in the range"),
        ("lag served --over nan", 2, "'nan' is not a number of seconds"),
        ("lag served --within nan", 2, "'nan' is not a number of seconds"),
        ("query served last --timeout nan", 2, "'nan' is not a number of seconds"),
        ("serve served --port 99999", 2, "not in the range"),
        ("ui --port 99999", 2, "not in the range"),
        ("serve served --token-file in.jsonl/token", 1, "the file of the token cannot be used"),
        ("checkpoints served --limit -3", 2, "not in the range"),
        ("state served file --limit 0", 2, "not in the range"),
        ("state served last --open --batch 3", 1, "--open shows the windows of the last batch only"),
        ("verify", 1, "a name is needed: there are 2 pipelines"),
        ("init in.jsonl", 1, "cannot be written"),
        ("rules judged", 1, "the table of rules 'judges' is not there yet"),
        ("sql hits.sql --set day --explain", 1, "--set must be FIELD=VALUE, not 'day'"),
        ("sql hits.sql --set day=1 --set day=2 --explain", 1, "--set names 'day' more than once"),
        ("records-of served --row k=a --row k=b", 1, "--row names 'k' more than once"),
        ("deploy hits.sql --set day", 1, "--set must be FIELD=VALUE, not 'day'"),
        ("deploy shop.hits --start --reset *", 1, "--reset does not go with --start"),
        ("deploy shop.hits --rollback 1 --set day=1", 1, "--set does not go with --rollback"),
        ("deploy shop.hits --stop --name shop.other", 1, "--name does not go with --stop"),
        ("deployments --text 3", 1, "--text needs the name of a pipeline"),
    ],
)
def test_wrong_input_is_refused_in_words(project, line, code, words):
    done, told = asked(line)
    assert (done, words in told) == (code, True), told


def test_what_is_advised_is_taken(project, monkeypatch):
    assert asked("sql hits.sql --set day=2026-01-05 --explain")[0] == 0
    assert asked("deploy hits.sql --set day=2026-01-05 --name shop.hits")[0] == 0
    assert "${day}" in asked("deployments shop.hits --text 1")[1]
    assert asked("deploy shop.hits --start")[0] == 0
    assert asked("init my_project")[0] == 0
    assert "'last' keeps no state" in asked("state served last --open")[1]
    assert "no module has a pipeline at its top level" in asked("verify -m json")[1]
    assert asked("verify -m served_only")[0] == 0
    table = Home.default().table("shop", "judges")
    write_deltalake(table, pa.table({"rule": ["one"]}))
    assert "the table of rules 'judges' lacks condition" in asked("rules judged")[1]
    rules = pa.table({"rule": ["one"], "condition": ["(n,>,1)"]})
    write_deltalake(table, rules, mode="overwrite", schema_mode="overwrite")
    assert asked("rules judged")[1].startswith("1 rule,")
    monkeypatch.setattr("rs_assets.cli.rows.query_server.ThreadingHTTPServer.serve_forever", lambda _: None)
    assert "token in other" in asked("serve served --port 0 --token-file other")[1]


def test_pipelines_of_a_project_that_are_not_a_list_are_refused(project, monkeypatch):
    written = project / "pyproject.toml"
    written.write_text('[tool.rs_assets]\npipelines = "wrong_input"\n')
    code, told = asked("list")
    assert (code, 'pipelines = ["wrong_input"]' in told) == (1, True)
    monkeypatch.delitem(sys.modules, "wrong_input", raising=False)
    written.write_text('[tool.rs_assets]\npipelines = ["wrong_input"]\n')
    assert asked("list")[0] == 0


@pytest.mark.parametrize(
    "command", ["stores served", "status", "verify served", "dead-letters served", "state served last"]
)
def test_a_home_that_is_a_file_is_refused(project, monkeypatch, command):
    monkeypatch.setenv("RS_HOME", str(project / "in.jsonl"))
    code, told = asked(command)
    assert (code, "the home must be a folder, not a file" in told) == (1, True), told
    monkeypatch.setenv("RS_HOME", str(project / "another"))
    assert "the home must be" not in asked(command)[1]


def test_an_address_that_does_not_parse_is_refused():
    with pytest.raises(ConfigurationError, match="this is not an address"):
        _url("//[")
    assert _url("/v1/stores?limit=1").query == "limit=1"


def test_deployed_pipelines_need_no_project(tmp_path, monkeypatch):
    """Nothing names a module with pipelines; without a deployed pipeline this is refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RS_HOME", str(tmp_path / "home"))
    (tmp_path / "in.jsonl").write_text('{"k": "a"}\n')
    (tmp_path / "rows.sql").write_text(
        "CREATE TABLE a (k STRING) WITH ('connector' = 'filesystem', 'path' = 'in.jsonl', 'format' = 'json');"
        "CREATE TABLE b (k STRING) WITH ('connector' = 'delta', 'table' = 'kept'); INSERT INTO b SELECT k FROM a"
    )
    assert "no pipelines are configured" in asked("status")[1]
    assert asked("deploy rows.sql --name shop.deployed")[0] == 0
    for line in ("status", "verify deployed", "describe deployed", "checkpoints deployed", "compact"):
        assert asked(line)[0] == 0, line
    assert "the table 'kept' does not exist yet" in asked("show kept")[1]
    loaded = subprocess.run(
        [sys.executable, "-c", "from rs_assets.definitions import defs; print(*defs.resolve_all_asset_keys())"],
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "deployed" in loaded.stdout, loaded.stderr
