"""`rs-assets dead-letters`, and pipelines that need not be named. No Spark."""

import json
import sys
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from click.shell_completion import ShellComplete

from rs_assets.cli.main import main
from rs_assets.common.home import Home
from rs_assets.connectors.dead_letters import SCHEMA, DeadLetters
from rs_assets.connectors.sink import BatchMark
from tests.dagster.projects import call, make_project

ONE = """
from rs_assets import StreamBuilder
p = StreamBuilder.data_stream('shop', 'hits').from_array([{'n': 1}]).to_print().build()
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with one pipeline."""
    monkeypatch.delenv("RS_HOME", raising=False)
    return make_project(tmp_path, monkeypatch, module="only_hits", code=ONE)


def write_letters(*lines, job="hits", batch=0, **columns):
    rows = [
        {
            "namespace": "shop",
            "job": job,
            "generation": 1,
            "query": "q",
            "batch_id": batch,
            "step": "file",
            "split": "hits.jsonl",
            "line": line,
            "offset": 0,
            "reason": "malformed JSON",
            "record": f'{{"n": {line}',
            "at": datetime(2026, 1, 5, 9, line, tzinfo=UTC),
            **columns,
        }
        for line in lines
    ]
    mark = BatchMark(pipeline_id=job, generation=1, sink="letters", batch_id=batch)
    DeadLetters(Home.default().dead_letters).write(pa.Table.from_pylist(rows, SCHEMA), mark)


def test_the_newest_letters_are_shown_and_counted(project):
    assert call("dead-letters", "hits") == (0, "hits: no dead letters\n")
    write_letters(1, 2, 3)
    write_letters(9, job="others")
    code, text = call("dead-letters", "hits", "--rows", "2")
    assert (code, "the newest of 3" in text, "malformed JSON" in text) == (0, True, True)
    code, text = call("dead-letters", "hits", "--rows", "2", "--json")
    told = json.loads(text)
    assert (code, told["count"], [row["line"] for row in told["newest"]]) == (0, 3, [2, 3])


def test_letters_that_a_rewind_took_back_do_not_count(project):
    write_letters(1, batch=0)
    write_letters(2, batch=1)
    back = BatchMark(pipeline_id="hits", generation=2, sink="letters", batch_id=-1)
    DeadLetters(Home.default().dead_letters).go_to({1: 0}, back, job=("shop", "hits"), names=["q"])
    assert json.loads(call("dead-letters", "hits", "--json")[1])["count"] == 1


def test_letters_are_written_into_a_new_file(project):
    write_letters(2, 1)
    code, text = call("dead-letters", "hits", "--export", "bad.jsonl")
    assert (code, "wrote 2 records into bad.jsonl" in text) == (0, True)
    assert (project / "bad.jsonl").read_text() == '{"n": 1\n{"n": 2\n'
    code, text = call("dead-letters", "hits", "--export", "bad.jsonl")
    assert (code, "already exists" in text) == (1, True)
    assert call("dead-letters", "hits", "--export", "no/bad.jsonl")[0] == 1


def test_the_export_says_which_texts_it_does_not_have(project):
    write_letters(1)
    write_letters(2, 3, batch=1, record=None)
    write_letters(4, batch=2, record="x" * 65_536)
    code, text = call("dead-letters", "hits", "--export", "bad.jsonl")
    assert (code, "wrote 2 records into bad.jsonl" in text) == (0, True)
    assert "without a text, which are left out: 2" in text.replace("\n", " ")
    assert "only the first 64 KiB are there: 1" in text.replace("\n", " ")
    assert len((project / "bad.jsonl").read_text().splitlines()) == 2


def test_the_only_pipeline_needs_no_name(project):
    code, text = call("describe")
    assert (code, "shop.hits" in text) == (0, True)
    for command, said in (("dead-letters", "no dead letters"), ("checkpoints", "no checkpoint yet")):
        assert call(command) == (0, f"hits: {said}\n")
    with (project / "only_hits.py").open("a") as module:
        module.write(ONE.replace("hits", "more").replace("p =", "q ="))
    del sys.modules["only_hits"]
    code, text = call("describe")
    assert (code, "name one of: shop.hits, shop.more" in text) == (1, True)


def test_the_tab_key_completes_names(project):
    complete = ShellComplete(main, {}, "rs-assets", "_RS_ASSETS_COMPLETE")
    assert [item.value for item in complete.get_completions(["run"], "h")] == ["hits"]
    (project / "only_hits.py").write_text("1 / 0")
    del sys.modules["only_hits"]
    assert complete.get_completions(["run"], "h") == []
