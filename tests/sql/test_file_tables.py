"""SQL reads tables of Delta and files of Parquet, and writes files of each format, in partitions."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from rs_assets import pipeline_from_sql
from rs_assets.errors import SchemaError, SourceReadError, SqlError, TopologyError

FEED = {"delta.enableChangeDataFeed": "true"}
HITS = "CREATE TABLE hits (page STRING, ms BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE) WITH"
SLOW = """
    CREATE TABLE slow (page STRING, n BIGINT, until TIMESTAMP(3)) WITH ('connector' = 'delta', 'table' = 'slow');
    INSERT INTO slow SELECT page, COUNT(*), TUMBLE_END(ts, INTERVAL '1' HOUR) FROM hits
    GROUP BY page, TUMBLE(ts, INTERVAL '1' HOUR);
"""


def hits(*rows):
    """Rows of page, ms and the minute of an hour."""
    pages, ms, minutes = zip(*rows, strict=True)
    times = pa.array([minute * 60_000_000 for minute in minutes], pa.timestamp("us", "UTC"))
    return pa.table({"page": pages, "ms": pa.array(ms, pa.int64()), "ts": times})


def found(options, table):
    return DeltaTable(options.home.table("sql", table)).to_pyarrow_table().to_pylist()


@pytest.mark.long
def test_windows_over_a_table_of_delta_count_each_added_row_once(options, tmp_path):
    path = str(tmp_path / "hits")
    write_deltalake(path, hits(("/a", 5, 0), ("/b", 7, 59)))
    job = pipeline_from_sql(f"{HITS} ('connector' = 'delta', 'path' = '{path}');{SLOW}", job="windows")
    job.run(options)
    write_deltalake(path, hits(("/a", 6, 58)), mode="append")
    DeltaTable(path).optimize.compact()
    write_deltalake(path, hits(("/a", 6, 70)), mode="append")
    job.run(options)
    job.run(options, finish=True)
    rows = {(row["page"], row["until"].hour): row["n"] for row in found(options, "slow")}
    assert rows == {("/a", 1): 2, ("/b", 1): 1, ("/a", 2): 1}


def test_a_table_whose_rows_change_ends_the_run_and_its_changes_can_be_read(options, tmp_path):
    path = str(tmp_path / "hits")
    write_deltalake(path, hits(("/a", 5, 0), ("/b", 7, 59)), configuration=FEED)
    copy = "CREATE TABLE copy (page STRING, ms BIGINT) WITH ('connector' = 'delta', 'table' = 'copy');"
    insert = "INSERT INTO copy SELECT page, ms FROM hits"
    job = pipeline_from_sql(f"{HITS} ('connector' = 'delta', 'path' = '{path}');{copy}{insert}", job="added")
    job.run(options)
    DeltaTable(path).update(predicate="page = '/a'", updates={"ms": "50"})
    with pytest.raises(SourceReadError, match="changes=True|rows were changed|removed"):
        job.run(options)
    assert sorted(row["ms"] for row in found(options, "copy")) == [5, 7]
    changed = """
        CREATE TABLE hits (page STRING, ms BIGINT, kind STRING METADATA FROM 'change_type',
            version BIGINT METADATA FROM 'commit_version')
            WITH ('connector' = 'delta', 'path' = '{}', 'changes' = 'true', 'starting-version' = '1');
        CREATE TABLE log (page STRING, ms BIGINT, kind STRING, version BIGINT)
            WITH ('connector' = 'delta', 'table' = 'log');
        INSERT INTO log SELECT page, ms, kind, version FROM hits
    """
    pipeline_from_sql(changed.format(path), job="changes").run(options)
    assert sorted((row["ms"], row["kind"], row["version"]) for row in found(options, "log")) == [
        (5, "update_preimage", 1),
        (50, "update_postimage", 1),
    ]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_the_changes_of_a_table_by_its_key_lead_to_the_table(options, tmp_path, seed):
    """Also those of keys, of many versions in one batch, and of a key that goes and comes in one version."""
    rnd, path = random.Random(seed), str(tmp_path / "users")

    def users(*ids):
        return pa.table({"id": pa.array(ids, pa.int64()), "tier": [rnd.choice("abc") for _ in ids]})

    write_deltalake(path, users(1, 2, 3), configuration=FEED)
    job = pipeline_from_sql(
        f"""
        CREATE TABLE users (id BIGINT, tier STRING, PRIMARY KEY (id) NOT ENFORCED)
            WITH ('connector' = 'delta', 'path' = '{path}', 'changes' = 'true');
        CREATE TABLE mirror (id BIGINT, tier STRING, PRIMARY KEY (id) NOT ENFORCED)
            WITH ('connector' = 'delta', 'table' = 'mirror');
        INSERT INTO mirror SELECT id, tier FROM users
        """,
        job="mirror",
    )
    job.run(options)
    fresh = 10
    for _ in range(2):
        for _ in range(6):
            table, one = DeltaTable(path), rnd.choice(DeltaTable(path).to_pyarrow_table()["id"].to_pylist())
            match rnd.choice(["add", "update", "delete", "key", "overwrite"]):
                case "add":
                    write_deltalake(path, users(fresh), mode="append")
                    fresh += 1
                case "update":
                    table.update(predicate=f"id = {one}", updates={"tier": f"'{rnd.choice('xyz')}'"})
                case "delete" if table.to_pyarrow_table().num_rows > 2:
                    table.delete(f"id = {one}")
                case "key":
                    table.update(predicate=f"id = {one}", updates={"id": str(fresh)})
                    fresh += 1
                case _:
                    write_deltalake(path, users(one, fresh), mode="overwrite")
                    fresh += 1
        job.run(options)
        there = DeltaTable(path).to_pyarrow_table().to_pylist()
        assert sorted(map(str, found(options, "mirror"))) == sorted(map(str, there))


def test_a_column_of_another_type_is_refused_by_name(options, tmp_path):
    path = str(tmp_path / "hits")
    write_deltalake(path, hits(("/a", 5, 0)))
    copy = "CREATE TABLE copy (page STRING) WITH ('connector' = 'print'); INSERT INTO copy SELECT page FROM hits"
    for columns, what in {
        "page STRING, ms STRING": "has 'ms' as bigint",
        "pgae STRING, page STRING": "has no column 'pgae'",
    }.items():
        table = f"CREATE TABLE hits ({columns}) WITH ('connector' = 'delta', 'path' = '{path}');"
        with pytest.raises(SchemaError, match=what) as refused:
            pipeline_from_sql(table + copy).run(options)
        assert "page string, ms bigint, ts timestamp" in refused.value.remedy


def test_files_of_parquet_are_read_once_each_and_columns_by_their_names(options, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(hits(("/a", 5, 0), ("/b", 7, 59)), folder / "a.parquet")
    job = pipeline_from_sql(
        f"{HITS} ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet');{SLOW}", job="parquet"
    )
    job.run(options)
    pq.write_table(hits(("/a", 6, 58)).select(["ts", "ms", "page"]), folder / "b.parquet")
    job.run(options, finish=True)
    assert {row["page"]: row["n"] for row in found(options, "slow")} == {"/a": 2, "/b": 1}
    other = tmp_path / "other"
    other.mkdir()
    pq.write_table(hits(("/a", 6, 58)).cast(pa.schema([("page", pa.string()), ("ms", pa.string()),
        ("ts", pa.timestamp("us", "UTC"))])), other / "c.parquet")  # fmt: skip
    wrong = pipeline_from_sql(
        f"{HITS} ('connector' = 'filesystem', 'path' = '{other}', 'format' = 'parquet');{SLOW}", job="wrong"
    )
    with pytest.raises(SourceReadError, match="the file has 'ms' as string, and the schema as bigint") as refused:
        wrong.run(options)
    assert refused.value.remedy == "declare it as string, and cast it in a step"
    read = (
        "CREATE TABLE hits (page STRING, ms STRING) WITH ('connector' = 'file', 'format' = 'parquet', 'path' = '{}');"
    )
    copy = "CREATE TABLE copy (ms BIGINT) WITH ('connector' = 'delta', 'table' = 'copy');"
    insert = "INSERT INTO copy SELECT CAST(ms AS BIGINT) FROM hits"
    pipeline_from_sql(f"{read.format(other)}{copy}{insert}", job="cast").run(options)
    assert found(options, "copy") == [{"ms": 6}]


def test_a_statement_writes_each_format_in_partitions(options, tmp_path):
    rows = [{"page": 'a,"b"', "n": 1, "day": "2024-03-01"}, {"page": None, "n": 2, "day": "2024/03"}]
    forms = {
        "csv": "'csv', 'csv.header' = 'true', 'csv.field-delimiter' = ';', 'compression' = 'gzip'",
        "parquet": "'parquet', 'parquet.compression' = 'zstd'",
        "json": "'json', 'compression' = 'zstd'",
    }
    tables = "".join(
        f"CREATE TABLE {name} (page STRING, n BIGINT, `day` STRING) PARTITIONED BY (`day`)"
        f" WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/{name}', 'format' = {form});"
        f"INSERT INTO {name} SELECT page, n, `day` FROM t;"
        for name, form in forms.items()
    )
    lines = f"""
        CREATE TABLE lines (line STRING)
            WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/lines', 'format' = 'raw');
        INSERT INTO lines SELECT CONCAT(`day`, ' ', CAST(n AS STRING)) FROM t
    """
    source = "CREATE TABLE t (page STRING, n BIGINT, `day` STRING) WITH ('connector' = 'memory');"
    pipeline_from_sql(source + tables + lines, tables={"t": rows}, job="formats").run(options)
    for name in forms:
        files = f"'{tmp_path}/{name}/batch=*/*/part-*', hive_partitioning = true, hive_types_autocast = false"
        more = ", delim = ';', header = true, quote = '\"', escape = '\"'" if name == "csv" else ""
        read = duckdb.sql(f'SELECT page, n, "day" FROM read_{name}({files}{more}) ORDER BY n').fetchall()
        assert read == [tuple(row.values()) for row in rows], name
    written = [line for file in tmp_path.glob("lines/*/*.txt") for line in file.read_text().splitlines()]
    assert sorted(written) == ["2024-03-01 1", "2024/03 2"]


def test_a_table_that_changes_is_not_written_into_files():
    source = (
        "CREATE TABLE t (page STRING, n BIGINT, PRIMARY KEY (page) NOT ENFORCED)"
        " WITH ('connector' = 'delta', 'table' = 't', 'changes' = 'true');"
    )
    for form in ("json", "csv", "parquet"):
        sink = (
            f"CREATE TABLE o (page STRING, n BIGINT) WITH ('connector' = 'file', 'path' = '/o', 'format' = '{form}');"
        )
        with pytest.raises(SqlError, match="the query replaces rows, which this sink does not support") as refused:
            pipeline_from_sql(f"{source}{sink}INSERT INTO o SELECT page, n FROM t")
        assert refused.value.remedy == "write to 'connector' = 'delta', or group by a window"
    sink = "CREATE TABLE o (n BIGINT) WITH ('connector' = 'file', 'path' = '/o', 'format' = 'raw');"
    rows = "CREATE TABLE t (n BIGINT) WITH ('connector' = 'file', 'path' = '/i');"
    with pytest.raises(TopologyError, match="text has one field of type string, and the rows have n bigint"):
        pipeline_from_sql(f"{rows}{sink}INSERT INTO o SELECT n FROM t")
