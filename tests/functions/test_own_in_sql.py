"""Functions of users' own in streaming SQL, against what the same functions give in Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import pytest

from rs_assets import pipeline_from_sql
from rs_assets.errors import SqlError
from tests.functions import library

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
ROWS = [
    {"page": page, "ms": ms, "ts": BEGIN + timedelta(seconds=second)}
    for second, (page, ms) in enumerate(
        [("a b", 7), ("a b", None), (None, 3), ("c", 9), ("a b", 1), ("", 4), ("c", 9), (None, None), ("a b", 30)]
    )
]
TABLES = """
CREATE TABLE clicks (page STRING, ms BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
    WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json');
CREATE FUNCTION len_of AS 'tests.functions.library.plain_length' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION med AS 'tests.functions.library:Median';
"""


def rows_of(driver, columns: str, query: str, more: str = "") -> list[dict]:
    sink = f"{more}CREATE TABLE found ({columns}) WITH ('connector' = 'print');"
    pipeline = pipeline_from_sql(f"{TABLES}{sink} INSERT INTO found {query}", job="own")
    return pipeline.try_(ROWS, spark=driver)["found"]


def test_should_call_functions_of_one_row(driver):
    """One run: declared, made by the statement, nested, in WHERE, in a branch that is not taken."""
    found = rows_of(
        driver,
        "a STRING, b BIGINT, c DOUBLE, d BIGINT, e BIGINT, f STRING, g STRING, h STRING",
        """SELECT OWN_INITIALS(UPPER(page), '.'), len_of(COALESCE(own_initials(page), 'none')),
            CASE WHEN ms > 3 THEN own_share(ms, ms - 3) END, own_sum(ms, CAST(NULL AS BIGINT)), own_less(ms, 2),
            own_joined(page, own_told(ms)), own_echo(page), echoed(page) FROM clicks
            WHERE len_of(page) > 0 AND NOT own_told(ms) = '+1'""",
        "CREATE FUNCTION echoed AS 'tests.functions.library:own_echo';",
    )
    wanted = [
        {
            "a": library.own_initials(row["page"].upper(), "."),
            "b": len(library.own_initials(row["page"]) or "none"),
            "c": row["ms"] / (row["ms"] - 3) if row["ms"] is not None and row["ms"] > 3 else None,
            "d": row["ms"],
            "e": None if row["ms"] is None else row["ms"] - 2,
            "f": library.own_joined(row["page"], library.own_told(row["ms"])),
            # What is declared stands below the decorator.
            "g": row["page"] + "!",
            "h": library.own_echo(row["page"]),
        }
        for row in ROWS
        if row["page"] and row["ms"] != 1
    ]
    assert found == wanted


def test_should_take_rows_apart_by_functions_that_make_rows(driver):
    """One run: declared and made by the statement, inner and left, nested, behind one another and before a window."""
    pages = ["a b a", "", None, " ", "ß 日本 'q' `n`", "a b a", "x"]
    rows = [{"page": page, "ms": ms, "ts": BEGIN} for ms, page in enumerate(pages)]
    sinks = "".join(
        f"CREATE TABLE {name} (ms BIGINT, word STRING, place BIGINT) WITH ('connector' = 'print');"
        for name in ("inner_rows", "left_rows", "letters", "twice", "counted")
    )
    found = pipeline_from_sql(
        f"""{TABLES}{sinks}CREATE FUNCTION letters_of AS 'tests.functions.library.plain_letters' LANGUAGE PYTHON;
        INSERT INTO inner_rows SELECT ms, word, place FROM clicks, LATERAL TABLE(own_words(UPPER(page))) AS t
            WHERE place < 2;
        INSERT INTO left_rows SELECT ms, w, at FROM clicks
            LEFT JOIN LATERAL TABLE(OWN_WORDS(page)) AS t (w, at) ON TRUE;
        INSERT INTO letters SELECT ms, t.word, place FROM clicks CROSS JOIN LATERAL TABLE(letters_of(page, ms)) AS t;
        INSERT INTO twice SELECT ms, l.word, l.place FROM clicks, LATERAL TABLE(own_words(page)) AS t,
            LATERAL TABLE(letters_of(t.word, t.place)) AS l;
        INSERT INTO counted SELECT COUNT(*), word, MAX(place) FROM clicks, LATERAL TABLE(own_words(page)) AS t
            GROUP BY word, TUMBLE(ts, INTERVAL '1' HOUR)""",
        job="own",
    ).try_(rows, spark=driver)
    words = [(ms, w, place) for ms, page in enumerate(pages) for place, w in enumerate((page or "").split())]
    counts = Counter(w for _, w, _ in words)
    wanted = {
        "inner_rows": [(ms, w.upper(), place) for ms, w, place in words if place < 2],
        "left_rows": [*words, *((ms, None, None) for ms, page in enumerate(pages) if not (page or "").split())],
        "letters": [
            (ms, letter, place)
            for ms, page in enumerate(pages)
            for place, letter in enumerate("none" if page is None else page)
            if place >= ms
        ],
        "twice": [(ms, letter, at) for ms, w, place in words for at, letter in enumerate(w) if at >= place],
        "counted": [(n, w, max(place for _, each, place in words if each == w)) for w, n in counts.items()],
    }
    for name, every in wanted.items():
        assert sorted(map(repr, (tuple(row.values()) for row in found[name]))) == sorted(map(repr, every)), name


def test_should_merge_the_accumulators_of_windows(driver):
    """One run: alone, over the rows of a FILTER, beside one that keeps rows, and without a value."""
    text = f"""{TABLES}CREATE TABLE found (page STRING, common BIGINT, small BIGINT, median BIGINT, n BIGINT)
        WITH ('connector' = 'print');
        INSERT INTO found SELECT page, own_commonest(ms), own_commonest(ms) FILTER (WHERE ms < 5), own_median(ms),
        COUNT(*) FROM clicks GROUP BY page, TUMBLE(ts, INTERVAL '1' HOUR)"""
    pipeline = pipeline_from_sql(text, job="own")
    assert "accumulator, accumulator" in pipeline.describe()
    found = pipeline.try_(ROWS, spark=driver)["found"]
    groups = defaultdict(list)
    for row in ROWS:
        groups[row["page"]].append(row["ms"])
    wanted = {}
    for page, every in groups.items():
        values = sorted(ms for ms in every if ms is not None)
        common, small = (
            min(each, key=lambda ms, each=each: (-each.count(ms), ms), default=None)
            for each in (values, [ms for ms in values if ms < 5])
        )
        wanted[page] = (common, small, values[len(values) // 2] if values else None, len(every))
    assert {row["page"]: tuple(row.values())[1:] for row in found} == wanted


def test_should_fold_the_rows_of_windows(driver):
    found = rows_of(
        driver,
        "page STRING, median BIGINT, big BIGINT, least STRING, total BIGINT, n BIGINT",
        """SELECT page, own_median(ms), MED(ms) FILTER (WHERE ms > 5), own_first_by(page, ms),
            SUM(own_sum(ms, 1)), COUNT(*) FROM clicks
            GROUP BY page, TUMBLE(ts, INTERVAL '1' HOUR) HAVING own_median(ms) IS NOT NULL""",
    )
    groups = defaultdict(list)
    for row in ROWS:
        groups[row["page"]].append(row["ms"])
    wanted = {}
    for page, every in groups.items():
        values = sorted(ms for ms in every if ms is not None)
        big = [ms for ms in values if ms > 5]
        middle = [each[len(each) // 2] if each else None for each in (values, big)]
        wanted[page] = (*middle, page or "-", sum(values) + len(values), len(every))
    assert {row["page"]: tuple(row.values())[1:] for row in found} == wanted


WRONG = [
    ("SELECT own_nothing(page) FROM clicks", "there is no function 'OWN_NOTHING'"),
    ("SELECT own_share(ms) FROM clicks", "wrong number of arguments for OWN_SHARE: 1"),
    ("SELECT own_share(page, 1) FROM clicks", "the argument 1 of own_share is a STRING, but must be a BIGINT"),
    ("SELECT own_year(ms) FROM clicks", "the argument 1 of own_year is a BIGINT, but must be a TIMESTAMP"),
    ("SELECT own_words(page) FROM clicks", "OWN_WORDS is not a scalar function"),
    ("SELECT own_median(ms) FROM clicks", "OWN_MEDIAN needs a window"),
    ("SELECT own_median(page) FROM clicks GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)", "the argument 1 of own_median is"),
    ("SELECT AVG(own_share(ms, 1)) FROM clicks GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)", "AVG calls a Python function"),
    ("SELECT own_median(DISTINCT ms) FROM clicks GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)", "OWN_MEDIAN(DISTINCT)"),
]
CREATED = [
    ("'tests.functions.library:absent'", "the module 'tests.functions.library' has no 'absent'"),
    ("'tests.functions.absent:f'", "the module 'tests.functions.absent' cannot be imported"),
    ("'nowhere' LANGUAGE PYTHON", "'nowhere' is not a function of a module"),
    ("'tests.functions.library:untyped'", "the parameter 'text' of the function 'g' has no type"),
    ("'tests.functions.library:BEGIN' LANGUAGE RUST", "unsupported function language RUST"),
]


@pytest.mark.parametrize(("query", "what"), WRONG, ids=[query for query, _ in WRONG])
def test_should_refuse_a_call_at_its_place(query, what):
    text = f"{TABLES}CREATE TABLE found (a STRING) WITH ('connector' = 'print');\nINSERT INTO found {query}"
    with pytest.raises(SqlError) as error:
        pipeline_from_sql(text)
    assert error.value.what.startswith(what)
    assert error.value.facts["line"] == 7
    assert error.value.facts["column"] == 1 + len("INSERT INTO found SELECT ")


@pytest.mark.parametrize(("target", "what"), CREATED, ids=[target for target, _ in CREATED])
def test_should_refuse_a_function_that_is_none(target, what):
    with pytest.raises(SqlError) as error:
        pipeline_from_sql(f"{TABLES}CREATE FUNCTION g AS {target}; INSERT INTO clicks SELECT * FROM clicks")
    assert error.value.what.startswith(what)
    assert error.value.facts["line"] == 6
