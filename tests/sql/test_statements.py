"""Statements against what plain Python says of the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from rs_assets import MemoryChannel, pipeline_from_sql
from rs_assets.cli.main import main
from rs_assets.errors import RsError
from rs_assets.spark.driver import SparkDriver
from rs_assets.testing import PipelineDriver

BEGIN = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
TABLES = """
    CREATE TABLE clicks (id BIGINT, page STRING, ms BIGINT, ts TIMESTAMP(3),
        WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'memory');
    CREATE TABLE buys (id BIGINT, price BIGINT, ts TIMESTAMP(3),
        WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'memory');
"""
# (id, page, ms, second)
CLICKS = [(1, "/a", 30, 1), (2, "/b", 10, 2), (1, "/a", 20, 9), (3, "/a", 90, 12), (2, "/c", 70, 15), (1, "/b", 50, 27)]
# (id, price, second)
BUYS = [(1, 5, 3), (1, 7, 12), (2, 9, 40), (3, 4, 18)]


def at(second: int) -> datetime:
    return BEGIN + timedelta(seconds=second)


def run(sql: str, driver: SparkDriver, **sinks: str) -> Mapping[str, list[dict[str, Any]]]:
    tables = "".join(
        f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'print');" for name, columns in sinks.items()
    )
    pipeline = pipeline_from_sql(TABLES + tables + sql, tables={"clicks": [], "buys": []})
    rows = {
        "clicks": [{"id": i, "page": page, "ms": ms, "ts": at(s)} for i, page, ms, s in CLICKS],
        "buys": [{"id": i, "price": price, "ts": at(s)} for i, price, s in BUYS],
    }
    given = {source.name: rows[source.name.removesuffix("_2")] for source in pipeline.topology.origins}
    return pipeline.try_(given, spark=driver)


def values(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in rows), key=repr)


def test_should_read_a_shared_view_once_for_all_statements(driver: SparkDriver) -> None:
    found = run(
        """
        CREATE VIEW slow AS SELECT id, page, ms * 2 AS twice, ts FROM clicks WHERE ms >= 20;
        EXECUTE STATEMENT SET BEGIN
            INSERT INTO raw SELECT page, twice FROM slow WHERE page <> '/c';
            INSERT INTO both_kinds SELECT page, 'fast' FROM slow WHERE twice < 60
                UNION ALL SELECT page, 'slow' FROM slow WHERE twice >= 60;
            INSERT INTO busy SELECT page, COUNT(*), MAX(twice), TUMBLE_START(ts, INTERVAL '10' SECOND) FROM slow
                GROUP BY page, TUMBLE(ts, INTERVAL '10' SECOND) HAVING COUNT(*) > 1 OR MAX(twice) > 100;
        END;
        """,
        driver,
        raw="page STRING, twice BIGINT",
        both_kinds="page STRING, kind STRING",
        busy="page STRING, n BIGINT, most BIGINT, start TIMESTAMP(3)",
    )
    slow = [(page, ms * 2, s) for _, page, ms, s in CLICKS if ms >= 20]
    raw = [(page, twice) for page, twice, _ in slow if page != "/c"]
    assert values(found["raw"]) == sorted(raw, key=repr)
    assert values(found["both_kinds"]) == sorted((page, "fast" if twice < 60 else "slow") for page, twice, _ in slow)
    assert values(found["busy"]) == [("/a", 1, 180, at(10)), ("/a", 2, 60, at(0)), ("/c", 1, 140, at(10))]


@pytest.mark.parametrize(
    ("value", "column"),
    [
        ("ms * 1000000000", "INT"),
        ("CAST(ms AS DECIMAL(20, 2)) * 1000", "DECIMAL(4, 2)"),
        ("CAST(ms AS DOUBLE) * 1e30", "DECIMAL(10, 2)"),
    ],
)
def test_should_end_at_a_number_that_its_column_cannot_hold(value: str, column: str, driver: SparkDriver) -> None:
    with pytest.raises(RsError, match="overflow|cannot be represented"):
        run(f"INSERT INTO cut SELECT page, {value} FROM clicks", driver, cut=f"page STRING, v {column}")


def test_should_join_by_time_and_by_window(driver: SparkDriver) -> None:
    found = run(
        """
        INSERT INTO bought SELECT c.id, c.page, b.price FROM clicks AS c LEFT JOIN buys AS b
            ON c.id = b.id AND b.ts BETWEEN c.ts AND c.ts + INTERVAL '10' SECOND AND b.price > 4;
        """,
        driver,
        bought="id BIGINT, page STRING, price BIGINT",
    )
    expected = []
    for i, page, _, s in CLICKS:
        partners = [price for other, price, t in BUYS if other == i and s <= t <= s + 10 and price > 4]
        expected += [(i, page, price) for price in partners or [None]]
    assert values(found["bought"]) == sorted(expected, key=repr)
    found = run(
        """
        INSERT INTO together SELECT c.id, c.page, b.price, c.window_start
        FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND)) AS c
        JOIN TABLE(TUMBLE(TABLE buys, DESCRIPTOR(ts), INTERVAL '10' SECOND)) AS b
            ON c.id = b.id AND c.window_start = b.window_start AND c.window_end = b.window_end;
        """,
        driver,
        together="id BIGINT, page STRING, price BIGINT, start TIMESTAMP(3)",
    )
    pairs = [(i, page, price, at(s // 10 * 10)) for i, page, _, s in CLICKS for other, price, t in BUYS
             if i == other and s // 10 == t // 10]  # fmt: skip
    assert values(found["together"]) == sorted(pairs, key=repr)


def test_should_rank_in_windows_and_over_counts(driver: SparkDriver) -> None:
    found = run(
        """
        INSERT INTO slowest SELECT page, ms, window_end, rn FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY ms DESC) AS rn
            FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '20' SECOND))
        ) WHERE rn <= 2;
        """,
        driver,
        slowest="page STRING, ms BIGINT, until TIMESTAMP(3), rn BIGINT",
    )
    expected = []
    for window in {s // 20 for *_, s in CLICKS}:
        rows = sorted(((ms, page) for _, page, ms, s in CLICKS if s // 20 == window), reverse=True)[:2]
        expected += [(page, ms, at(window * 20 + 20), n) for n, (ms, page) in enumerate(rows, 1)]
    assert values(found["slowest"]) == sorted(expected, key=repr)
    found = run(
        """
        CREATE VIEW counts AS SELECT page, COUNT(*) AS n, window_start, window_end
            FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '20' SECOND))
            GROUP BY page, window_start, window_end;
        INSERT INTO top SELECT page, n, window_start FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, page) AS rn FROM counts
        ) WHERE rn = 1;
        """.replace("n DESC, page)", "n DESC)"),
        driver,
        top="page STRING, n BIGINT, start TIMESTAMP(3)",
    )
    assert values(found["top"]) == [("/a", 3, at(0)), ("/b", 1, at(20))]


def test_should_keep_the_first_row_of_a_key_and_count_what_is_different(driver: SparkDriver) -> None:
    found = run(
        """
        INSERT INTO once SELECT id, page FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts ASC) AS rn FROM clicks
        ) WHERE rn = 1;
        INSERT INTO pages SELECT DISTINCT page FROM clicks;
        INSERT INTO spread SELECT id, COUNT(DISTINCT page), COUNT(DISTINCT page) FILTER (WHERE ms > 40), AVG(ms),
            SUM(ms) / 3 FROM clicks GROUP BY id;
        """,
        driver,
        once="id BIGINT, page STRING",
        pages="page STRING",
        spread="id BIGINT, pages BIGINT, slow BIGINT, mean BIGINT, third BIGINT",
    )
    assert values(found["once"]) == [(1, "/a"), (2, "/b"), (3, "/a")]
    assert {row["page"] for row in found["pages"]} == {"/a", "/b", "/c"}
    assert values(found["spread"]) == [(1, 2, 1, 33, 33), (2, 2, 1, 40, 26), (3, 1, 1, 90, 30)]


def test_should_give_state_the_names_of_the_statement() -> None:
    sql = """
        CREATE TABLE out1 (page STRING, n BIGINT) WITH ('connector' = 'print');
        CREATE VIEW hourly AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page, TUMBLE(ts, INTERVAL '1' HOUR);
        INSERT INTO out1 SELECT page, n FROM hourly
    """
    given = {"clicks": [], "buys": []}
    before, after = (
        pipeline_from_sql(TABLES + text, tables=given)
        for text in (sql, "CREATE TABLE more (page STRING) WITH ('connector' = 'print');" + sql + " WHERE n > 1;"
                     "INSERT INTO more SELECT page FROM clicks")
    )  # fmt: skip
    names = [[node.name for node in pipeline.topology if node.stateful] for pipeline in (before, after)]
    assert names == [["hourly_group"], ["hourly_group"]]
    assert before.topology.fingerprint == after.topology.fingerprint


def test_should_fire_early_and_late_as_emit_says() -> None:
    pipeline = pipeline_from_sql(
        TABLES + """CREATE TABLE out1 (page STRING, n BIGINT) WITH ('connector' = 'print');
        INSERT INTO out1 SELECT page, COUNT(*) FROM clicks GROUP BY page, TUMBLE(ts, INTERVAL '1' HOUR)
        EMIT WITH DELAY '10' SECOND BEFORE WATERMARK, WITH DELAY '1' MINUTE AFTER WATERMARK""",
        tables={"clicks": []},
    )  # fmt: skip
    firing = pipeline.topology["out1_group"].firing
    assert (firing.before, firing.after) == (timedelta(seconds=10), timedelta(minutes=1))


@pytest.mark.parametrize(
    ("query", "source"),
    [
        ("WITH a AS (SELECT id FROM buys), buys AS (SELECT id FROM clicks) SELECT id FROM a", "buys"),
        ("WITH a AS (SELECT id FROM buys) SELECT id FROM (WITH buys AS (SELECT id FROM clicks) SELECT * FROM a)",
         "buys"),
        ("WITH b AS (SELECT id FROM buys) SELECT id FROM (WITH b AS (SELECT id FROM b) SELECT id FROM b)",
         "buys"),
        ("WITH clicks AS (SELECT id FROM clicks) SELECT id FROM clicks", "clicks"),
        ("WITH a AS (SELECT id FROM clicks), buys AS (SELECT id FROM a) SELECT id FROM buys", "clicks"),
    ],
)  # fmt: skip
def test_query_of_with_when_it_names_a_table_reads_the_queries_before_it_and_no_others(query: str, source: str) -> None:
    pipeline = pipeline_from_sql(
        TABLES + f"CREATE TABLE out1 (id BIGINT) WITH ('connector' = 'print'); INSERT INTO out1 {query}",
        tables={"clicks": [], "buys": []},
    )
    assert [node.name for node in pipeline.topology.sources] == [source]


def test_join_when_a_query_of_with_has_the_name_of_its_other_table_reads_two_sources() -> None:
    pipeline = pipeline_from_sql(
        TABLES + """CREATE TABLE out1 (id BIGINT) WITH ('connector' = 'print');
        INSERT INTO out1 WITH a AS (SELECT id, ts FROM buys), buys AS (SELECT id, ts FROM clicks)
        SELECT a.id FROM a JOIN buys ON a.id = buys.id AND a.ts = buys.ts""",
        tables={"clicks": [], "buys": []},
    )  # fmt: skip
    assert sorted(node.name for node in pipeline.topology.sources) == ["buys", "clicks"]


CHAINS = {
    "views": lambda last: "".join(
        f"CREATE VIEW v{n} AS SELECT id, ms + 1 AS ms FROM {f'v{n - 1}' if n else 'clicks'};" for n in range(last + 1)
    ) + f"INSERT INTO out1 SELECT id, ms FROM v{last}",
    "with": lambda last: "INSERT INTO out1 WITH " + ", ".join(
        f"v{n} AS (SELECT id, ms + 1 AS ms FROM {f'v{n - 1}' if n else 'clicks'})" for n in range(last + 1)
    ) + f" SELECT id, ms FROM v{last}",
}  # fmt: skip


@pytest.mark.parametrize("kind", CHAINS)
def test_a_hundred_queries_may_each_read_the_one_before(kind: str) -> None:
    sql = TABLES + f"CREATE TABLE out1 (id BIGINT, ms BIGINT) WITH ('connector' = 'print'); {CHAINS[kind](99)}"
    pipeline = pipeline_from_sql(sql, tables={"clicks": []})
    assert len(pipeline.topology.nodes) == 103


def test_the_rows_of_a_chain_of_a_hundred_views_have_passed_all_of_them(driver: SparkDriver) -> None:
    found = run(CHAINS["views"](99), driver, out1="id BIGINT, ms BIGINT")["out1"]
    assert values(found) == sorted((id_, ms + 100) for id_, _, ms, _ in CLICKS)


def test_should_read_a_source_once_though_statements_emit_differently() -> None:
    pipeline = pipeline_from_sql(
        TABLES + """CREATE TABLE out1 (page STRING, n BIGINT) WITH ('connector' = 'print');
        CREATE TABLE out2 (page STRING, n BIGINT) WITH ('connector' = 'print');
        CREATE VIEW hourly AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page, TUMBLE(ts, INTERVAL '1' HOUR);
        INSERT INTO out1 SELECT * FROM hourly;
        INSERT INTO out2 SELECT * FROM hourly EMIT WITH DELAY '10' SECOND BEFORE WATERMARK""",
        tables={"clicks": []},
    )  # fmt: skip
    assert [source.name for source in pipeline.topology.sources] == ["clicks"]
    windows = [node for node in pipeline.topology if node.stateful]
    assert [(node.name, node.firing.before > timedelta(0)) for node in windows] == [
        ("hourly_group", False),
        ("hourly_out2_group", True),
    ]


def test_should_take_channels_for_tables(driver: SparkDriver) -> None:
    rows = MemoryChannel(schema="id bigint, page string, ms bigint, ts timestamp")
    collected = MemoryChannel()
    pipeline = pipeline_from_sql(
        TABLES + """CREATE TABLE pages (page STRING) WITH ('connector' = 'memory');
        INSERT INTO pages SELECT page FROM clicks WHERE ms > 5""",
        tables={"clicks": rows, "pages": collected},
    )  # fmt: skip
    assert [node.kind for node in pipeline.topology] == ["memory_source", "filter", "map", "memory_sink"]


def test_should_fill_in_variables_and_read_files(tmp_path: Any) -> None:
    file = tmp_path / "pages.sql"
    file.write_text(
        "CREATE TABLE t (page STRING) WITH ('connector' = 'filesystem', 'path' = '${FOLDER}/t');\n"
        "CREATE TABLE u (page STRING) WITH ('type' = 'print');\nINSERT INTO u SELECT page FROM t"
    )
    pipeline = pipeline_from_sql(file, variables={"FOLDER": "/data"})
    assert (pipeline.name, pipeline.topology["t"].path) == ("sql.pages", "/data/t")


def test_should_explain_a_file_on_the_command_line(tmp_path: Any) -> None:
    file = tmp_path / "pages.sql"
    file.write_text(
        "CREATE TABLE t (page STRING) WITH ('connector' = 'filesystem', 'path' = '${FOLDER}/t');\n"
        "CREATE TABLE u (page STRING) WITH ('connector' = 'print');\nINSERT INTO u SELECT pgae FROM t"
    )
    refused = CliRunner().invoke(main, ["sql", str(file), "--explain", "--set", "FOLDER=/data"])
    assert refused.exit_code == 1
    assert "there is no column 'pgae'" in refused.output
    assert "line=3, column=22" in refused.output
    file.write_text(file.read_text().replace("pgae", "page"))
    shown = CliRunner().invoke(main, ["sql", str(file), "--explain", "--set", "FOLDER=/data"])
    assert shown.exit_code == 0
    assert "u_row  map <- t" in shown.output


def test_should_take_back_what_no_longer_passes_behind_a_ranking(driver: SparkDriver) -> None:
    statement = """
        INSERT INTO quick SELECT id, ms, rn FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts DESC) AS rn FROM clicks
        ) WHERE rn <= 2 AND ms < 60;
    """
    sink = "CREATE TABLE quick (id BIGINT, ms BIGINT, rn INT) WITH ('connector' = 'print');"
    pipeline = pipeline_from_sql(TABLES + sink + statement, tables={"clicks": [], "buys": []})
    standing: list[tuple[int, int, int]] = []
    with PipelineDriver(pipeline, spark=driver) as running:
        for number, (i, page, ms, s) in enumerate(CLICKS, 1):
            running.push([{"id": i, "page": page, "ms": ms, "ts": at(s)}])
            running.step()
            for row in running.take():
                found = (row["id"], row["ms"], row["rn"])
                standing.remove(found) if row["retracted"] else standing.append(found)
            newest: dict[int, list[int]] = {}
            for j, _, ms_of, _ in CLICKS[:number]:
                newest[j] = [ms_of, *newest.get(j, [])][:2]
            expected = [(j, ms_of, rn) for j, of in newest.items() for rn, ms_of in enumerate(of, 1) if ms_of < 60]
            assert sorted(standing) == sorted(expected)
