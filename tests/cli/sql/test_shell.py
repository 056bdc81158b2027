"""`rs-assets sql` without a file: by its lines, in a pipe, and at a terminal."""

from __future__ import annotations

import os
import pty
import selectors
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rs_assets.cli.main import main
from rs_assets.cli.sql.shell import MORE, PROMPT, Shell
from rs_assets.spark.driver import SparkDriver
from rs_assets.sql.plan.session import Session


@pytest.fixture
def table(tmp_path: Path) -> str:
    (tmp_path / "in.jsonl").write_text('{"page": "/a", "ms": 3}\n{"page": "/b", "ms": 40}\n')
    return (
        "CREATE TABLE clicks (page STRING, ms BIGINT, slow AS ms > 9) WITH\n"
        f"  ('connector' = 'filesystem', 'path' = '{tmp_path}/in.jsonl', 'format' = 'json');"
    )


def told(*texts: str) -> tuple[list[str], list[Any]]:
    said: list[str] = []
    ran: list[Any] = []
    Shell(Session(), ran.append, said.append).loop(line for text in texts for line in text.split("\n"))
    return said, ran


def test_should_keep_what_is_created(table: str) -> None:
    view = "CREATE VIEW slow_ones AS SELECT page, ms + 1 AS more FROM clicks WHERE slow;"
    said, _ = told(table, view, "show tables;", "describe clicks;", "describe slow_ones")
    assert said == [
        "kept",
        "kept",
        "table     clicks\nview      slow_ones",
        "page  string\nms  bigint\nslow  ?",
        "page  string\nmore  bigint",
    ]


def test_should_show_what_was_created_by_its_kind(table: str) -> None:
    function = "CREATE FUNCTION counted AS 'x.CountChar';"
    said, _ = told(table, function, "show functions;", "show views;", "show tables;")
    assert said[2] == "function  counted"
    assert said[3].endswith("docs/functions.md")
    assert said[4:] == ["no view was created yet", "table     clicks"]


def test_should_say_at_once_that_nothing_has_a_connector() -> None:
    said, _ = told("CREATE TABLE t (a INT)\nWITH ('connector' = 'filesytem');", "CREATE TABLE u (a INT);")
    assert said[0].splitlines() == [
        *("WITH ('connector' = 'filesytem')", "                    ^ unknown connector 'filesytem'"),
        "  remedy: did you mean 'filesystem'?",
    ]
    assert "has no 'connector'" in said[1]


def test_should_say_that_a_file_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "clicks.jsonl"
    options = f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json')"
    said, _ = told(f"CREATE TABLE t (a INT) {options};", "SELECT a FROM t;")
    assert f"there is no file at {path}" in said[1]


def test_should_go_on_after_an_error_with_a_mark_at_its_place(table: str) -> None:
    said, ran = told(
        table, "SELECT page,\n  mss FROM clicks;", "SELECT 'open FROM clicks;\n",
        "CREATE VIEW v AS SELECT x FROM clicks;", "describe nothing;", "show me;",
        "INSERT INTO nowhere SELECT page FROM clicks;", "UPDATE clicks;",
    )  # fmt: skip
    assert said[1] == "  mss FROM clicks\n  ^ there is no column 'mss'\n  remedy: did you mean 'ms'?"
    assert said[2].splitlines()[:2] == ["SELECT 'open FROM clicks", "       ^ a text is not closed"]
    assert "there is no column 'x'" in said[3]
    assert "there is no table 'nothing'" in said[4]
    assert "cannot show 'me'" in said[5]
    assert "there is no table 'nowhere'" in said[6]
    assert "'UPDATE' does not begin a statement" in said[7]
    assert ran == []


def test_should_run_an_insert_and_a_set_of_them(table: str) -> None:
    sinks = "".join(f"CREATE TABLE {name} (page STRING) WITH ('connector' = 'print');\n" for name in ("out1", "out2"))
    said, ran = told(
        table, sinks, "INSERT INTO out1 SELECT page FROM clicks;",
        "EXECUTE STATEMENT SET BEGIN\nINSERT INTO out1 SELECT page FROM clicks;",
        "INSERT INTO out2 SELECT page FROM clicks;\nEND;",
        "INSERT INTO out1 SELECT page\nFROM clicks",
    )  # fmt: skip
    assert [pipeline.name for pipeline in ran] == ["sql.out1", "sql.out1"]
    assert [len(pipeline.topology.sinks) for pipeline in ran] == [1, 2]
    assert said[-1] == "the last statement does not end with a semicolon, so it was not run"


def test_should_end_a_statement_by_a_semicolon_that_is_not_quoted(table: str) -> None:
    sink = "CREATE TABLE found (page STRING) WITH ('connector' = 'print'); -- kept;"
    view = "CREATE VIEW odd AS SELECT 'a;\nit''s b;' AS page, `ms` AS `n;\n` /* no;\n end */ FROM clicks -- of all;\n;"
    every = (
        "EXECUTE STATEMENT SET BEGIN\nINSERT INTO found SELECT page FROM odd",
        "WHERE `n;\n` = CASE\nWHEN TRUE THEN 1 END;",
        "END;",
    )
    said, ran = told(table, sink, view, "describe odd;", *every)
    assert said == ["kept", "kept", "kept", "page  string\nn;\n  bigint"]
    assert len(ran) == 1


def test_shell_when_columns_have_one_name_keeps_both(table: str) -> None:
    session = Session()
    session.keep(table.rstrip(";"))
    made = session.stream("SELECT page, ms AS page, 1, 2 AS column_3 FROM clicks")
    texts = [part.text for part in made.draft.leading_to(made.step)[-1].select]  # type: ignore[attr-defined]
    assert [text.rpartition(" AS ")[2] for text in texts] == ["`page`", "`page_2`", "`column_3`", "`column_3_2`"]


def test_shell_when_a_remark_stands_in_a_remark_goes_on(table: str) -> None:
    said, _ = told(table, "/* a /* b */ CREATE VIEW v AS SELECT page FROM clicks;", "describe v;")
    assert said == ["kept", "kept", "page  string"]


def test_should_take_a_name_again(table: str) -> None:
    said, _ = told(table, table.replace("page STRING, ", ""), "describe clicks;", "quit;", "describe clicks;")
    assert said == ["kept", "kept", "ms  bigint\nslow  ?"]


def test_should_complete_names(table: str) -> None:
    shell = Shell(Session(), print, lambda text: None)
    shell.loop(table.split("\n"))
    assert shell.completions("cli") == ["clicks"]
    assert {"page", "PARTITION"} <= set(shell.completions("pa"))
    assert "SPLIT_INDEX" in shell.completions("split")
    assert shell.prompt == PROMPT
    shell.take("SELECT page")
    assert shell.prompt == MORE


def test_should_preview_a_query_of_a_pipe(table: str, driver: SparkDriver) -> None:
    lines = f"{table}\nSELECT page, ms * 2 FROM clicks WHERE slow;\nSELECT page FROM clicks WHERE ms > 99;\nhelp;\n"
    lines += "SELECT CAST(page AS BIGINT) FROM clicks;\n"
    found = CliRunner().invoke(main, ["sql"], input=lines)
    assert found.exit_code == 0
    assert "column_2" in found.output
    assert "/b" in found.output
    assert "80" in found.output
    assert "no rows" in found.output
    assert "describe NAME" in found.output
    # What a query fails of is told once, without Spark's own lines.
    assert found.output.count("CAST_INVALID_INPUT") == 1
    assert '"logger"' not in found.output


def test_should_edit_lines_at_a_terminal(tmp_path: Path) -> None:
    """The tab key completes, and lines are there in the next session."""
    history = tmp_path / "history"
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(RS_SQL_HISTORY=str(history), TERM="dumb")
        os.execv(sys.executable, [sys.executable, "-m", "rs_assets.cli.main", "sql"])
    seen = _until(terminal, "sql> ")
    assert "help;" in seen
    os.write(terminal, b"SELECT 1 FR\t nowhere;\n")
    assert "there is no table 'nowhere'" in _until(terminal, "remedy")
    # A tab with nothing before it is one, as in lines that are pasted.
    os.write(terminal, b"CREATE TABLE tabbed (\n\tcount1 BIGINT\n) WITH ('connector' = 'print');\n")
    _until(terminal, "kept")
    os.write(terminal, b"describe tabbed;\n")
    assert "count1  bigint" in _until(terminal, "bigint")
    os.write(terminal, b"quit;\n")
    os.waitpid(child, 0)
    assert "SELECT 1 FROM  nowhere;" in history.read_text() or "SELECT 1 FROM nowhere;" in history.read_text()


def _until(terminal: int, text: str) -> str:
    """What the terminal shows until there is `text` in it."""
    shown, end = "", time.monotonic() + 60
    with selectors.DefaultSelector() as ready:
        ready.register(terminal, selectors.EVENT_READ)
        while text not in shown and time.monotonic() < end:
            if ready.select(timeout=1):
                shown += os.read(terminal, 4096).decode()
    assert text in shown
    return shown
