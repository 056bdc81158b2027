"""Forget on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from rs_assets import Home
from rs_assets.cli.main import main
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.upkeep.savepoints import savepoint
from rs_assets.spark.driver import SparkDriver
from tests.dagster.projects import call, imported_project

MODULE = """
from rs_assets import StreamBuilder
rows = [{'user': f'u{n}', 'ms': n} for n in range(5)]
pipeline = StreamBuilder.data_stream('shop', 'seen').from_array(rows, name='read').to_delta('seen', name='out').build()
"""


def test_the_command_shows_asks_removes_and_is_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: SparkDriver
) -> None:
    project = imported_project(tmp_path, monkeypatch, driver, module="seen_by", code=MODULE)
    options = RunOptions(home=Home.default(), driver=driver)
    project.pipeline.run(options)
    path = options.home.table("shop", "seen")

    code, text = call("forget", "seen", "user=u1", "--plan")
    assert (code, "shop.seen: 1 key would be forgotten" in text, "output out: 1 row" in text) == (0, True, True)
    code, text = call("forget", "seen", "user", "--yes")
    assert (code, "write it as user_id=17" in text) == (1, True)
    code, text = call("forget", "seen", "user=u1", "--field", "out:who=user", "--yes")
    assert (code, "name one of: user, ms" in text) == (1, True)
    code, text = call("forget", "seen", "user=u1", "--json")
    assert (code, json.loads(text)["remedy"]) == (1, "write --yes, or --plan")
    asked = CliRunner().invoke(main, ["forget", "seen", "user=u1"], input="n\n")
    assert (asked.exit_code, "There is no way back" in asked.output, DeltaTable(path).count()) == (1, True, 5)

    # As a spreadsheet of Windows writes it.
    (tmp_path / "keys.txt").write_text("user=u2\r\n\r\nuser=u3\r\n", encoding="utf-8-sig")
    code, text = call("forget", "seen", "user=u1", "--from", str(tmp_path / "keys.txt"), "--yes")
    assert (code, "3 keys forgotten" in text, "found by a scan afterwards: 0" in text) == (0, True, True)
    assert sorted(DeltaTable(path).to_pyarrow_table()["user"].to_pylist()) == ["u0", "u4"]
    code, text = call("audit", "seen")
    assert (code, "keys were forgotten 1 time," in text) == (0, True)

    saved = savepoint(project.pipeline.topology, options)
    code, text = call("forget", "seen", "--yes", "user=u0")
    assert (code, saved.id in text) == (1, True)
    code, text = call("forget", "seen", "user=u0", "--savepoints", "remove", "--yes", "--json")
    done = json.loads(text)
    assert (code, done["complete"], [each["rows"] for each in done["places"] if each["rows"]]) == (0, True, [1])
