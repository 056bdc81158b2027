"""Grok on real Spark, in scripts, SQL, Python and sources, against Python's expressions."""

from __future__ import annotations

import re

import pytest

from rs_assets import StreamBuilder, functions, pipeline_from_sql
from rs_assets.expressions.syntax.place import LanguageError
from rs_assets.records.grok.expand import with_named_groups
from rs_assets.testing import run_rows

LOG = '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326'
LINES = [
    LOG,
    f"at the end {LOG} rest\nsecond line",
    LOG.replace("2326", "-"),
    LOG.replace("GET", "GET\u0001"),
    f"{LOG}\u0001",
    f"{LOG} {LOG.replace('frank', 'ann')}",
    "nothing of it",
    "",
    None,
    "a." * 10_000,
    "'" * 20_000,
    "x" * 200_000,
]
COMMON = "%{COMMONAPACHELOG}"


def fields_of(line, pattern=COMMON):
    """The fields of a line, by Python."""
    expression = re.compile(with_named_groups(pattern), re.ASCII)
    found = expression.search(line) if line is not None else None
    values = found.groupdict() if found else dict.fromkeys(expression.groupindex)
    return {name: value or None for name, value in values.items()}


def test_grok_of_a_script_gives_the_fields_of_python(source, compute):
    rows = compute(source("line string").script(f"grok(line,'{COMMON}')"), [{"line": line} for line in LINES])
    assert rows == [{"line": line, **fields_of(line)} for line in LINES]


def test_grok_in_a_branch_with_added_patterns_keeps_fields_that_are_there(source, compute):
    text = r"""
        addGrok(LEVEL,'[A-Z]{2,}'); addGrok(HEAD,'\[%{LEVEL:level}\]');
        if(kind=='log'){grok(message,'%{HEAD} (?<message>.*?) (?:in %{INT:ms:int}|for %{NUMBER:ms:int})$')}
    """
    rows = compute(
        source("kind string, message string, level string").script(text),
        [
            {"kind": "log", "message": "[ERR] a b in 12", "level": "none"},
            {"kind": "log", "message": "[ERR] a b for 99999999999", "level": "none"},
            {"kind": "log", "message": "[err] a in 12", "level": "none"},
            {"kind": "else", "message": "[ERR] a in 12", "level": "none"},
        ],
    )
    assert [(row["message"], row["level"], row["ms"]) for row in rows] == [
        ("a b", "ERR", 12),
        ("a b", "ERR", 99999999999),
        ("[err] a in 12", "none", None),
        ("[ERR] a in 12", "none", None),
    ]


def test_grok_as_a_function_is_the_same_in_sql_and_python(driver):
    sql = """
        CREATE TABLE logs (n BIGINT, line STRING) WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json');
        CREATE TABLE hits (n BIGINT, verb STRING, bytes BIGINT, one BIGINT) WITH ('connector' = 'print');
        CREATE VIEW parsed AS SELECT n, line, GROK(line, '%{WORD:verb} %{INT:bytes:int}') AS g FROM logs;
        INSERT INTO hits
        SELECT n, g.verb, t.b, GROK(line, '%{INT:bytes:int}', 'bytes')
        FROM parsed CROSS JOIN LATERAL TABLE(GROK(line, '%{WORD} %{INT:bytes:int}')) AS t (b);
        CREATE TABLE every (n BIGINT, verb STRING) WITH ('connector' = 'print');
        INSERT INTO every
        SELECT n, verb FROM logs LEFT JOIN LATERAL TABLE(GROK(line, '%{WORD:verb} %{INT:bytes:int}')) AS t ON TRUE;
    """
    rows = [{"n": 1, "line": "GET 12"}, {"n": 2, "line": "-"}, {"n": 3, "line": "PUT 7 9"}, {"n": 4, "line": None}]
    found = pipeline_from_sql(sql, job="grok").try_(rows, spark=driver)
    assert found["hits"] == [
        {"n": 1, "verb": "GET", "bytes": 12, "one": 12},
        {"n": 3, "verb": "PUT", "bytes": 7, "one": 7},
    ]
    assert found["every"] == [{"n": n, "verb": verb} for n, verb in ((1, "GET"), (2, None), (3, "PUT"), (4, None))]
    stream = StreamBuilder.data_stream("test", "grok_python").from_file("in.jsonl", schema="n bigint, line string")
    made = stream.with_fields(g=functions.grok("line", "'%{WORD:verb} %{INT:bytes:int}'")).map("n", "g.verb", "g.bytes")
    wanted = [(1, "GET", 12), (2, None, None), (3, "PUT", 7), (4, None, None)]
    assert [(row["n"], row["verb"], row["bytes"]) for row in run_rows(made, rows, spark=driver)] == wanted


def test_grok_as_the_pattern_of_a_source_parses_whole_lines(tmp_path, driver):
    (tmp_path / "a.log").write_text("GET 12\nPUT x\nPUT 7\nGET 1 2\n")
    stream = StreamBuilder.data_stream("test", "grok_source").from_file(
        str(tmp_path / "a.log"),
        format="text",
        pattern="%{WORD:verb} %{INT:ms}",
        schema="verb string, ms int",
        bad_records="skip",
    )
    assert stream.preview(spark=driver) == [{"verb": "GET", "ms": 12}, {"verb": "PUT", "ms": 7}]


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("grok(line)", 1, "takes a text and a pattern"),
        ("grok(line,'%{WROD:a}')", 11, "did you mean %{WORD}"),
        ("grok(line,upper('a'))", 1, "must be a literal"),
        ("x=grok(line,'%{WORD:a}','b')", 3, "no field 'b'"),
        ("x=grok(line,null)", 3, "pattern is null"),
        ("addGrok(A)", 1, "takes a name and a pattern"),
        ("addGrok(A,'(')", 11, "is not closed"),
        ("addGrok('a b','c')", 1, "is not the name of a pattern"),
        ("grok(line,'%{WORD:Line}')", 1, "differ by case only"),
    ],
)
def test_grok_a_wrong_call_is_refused_at_its_place(source, text, column, said):
    with pytest.raises(LanguageError) as refused:
        source("line string").script(text).to_print().build()
    assert said in str(refused.value)
    assert refused.value.column == column
