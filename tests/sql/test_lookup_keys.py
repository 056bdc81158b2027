"""Lookup joins by networks and intervals in SQL, against the fluent form and plain Python."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from rs_assets import pipeline_from_sql

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
TABLES = """
    CREATE TABLE logs (n BIGINT, ip STRING, item STRING, ms INT, ts TIMESTAMP(3))
        WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json');
    CREATE TABLE feed (cidr STRING, threat STRING)
        WITH ('connector' = 'filesystem', 'path' = '{folder}/feed.jsonl', 'format' = 'json');
    CREATE TABLE prices (item STRING, since TIMESTAMP(3), until TIMESTAMP(3), price BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{folder}/prices.jsonl', 'format' = 'json');
    CREATE TABLE classes (low BIGINT, high BIGINT, class STRING)
        WITH ('connector' = 'filesystem', 'path' = '{folder}/classes.jsonl', 'format' = 'json');
    CREATE TABLE found (n BIGINT, threat STRING, price BIGINT, class STRING) WITH ('connector' = 'print');
    INSERT INTO found
    SELECT s.n, f.threat, p.price, c.class FROM logs AS s
    LEFT JOIN feed FOR SYSTEM_TIME AS OF PROCTIME() AS f ON IP_CONTAINS(f.cidr, TRIM(s.ip)) AND f.threat <> 'none'
    LEFT JOIN prices FOR SYSTEM_TIME AS OF PROCTIME() AS p
        ON s.item = p.item AND RANGE_CONTAINS(p.since, p.until, s.ts)
    JOIN classes FOR SYSTEM_TIME AS OF PROCTIME() AS c ON RANGE_CONTAINS(c.low, c.high, s.ms, TRUE);
"""
FEED = [("10.0.0.0/8", "wide"), ("10.1.0.0/16", "narrow"), ("10.1.2.0/24", "none"), ("2001:db8::/32", "six")]
PRICES = [("a", None, 10, 1), ("a", 10, None, 2), ("b", 0, 20, 3), ("b", 5, 7, 4)]
CLASSES = [(None, 9, "low"), (10, 20, "mid")]
LOGS = [
    (1, " 10.1.9.9 ", "a", 9, 9),
    (2, "10.1.2.3", "a", 10, 10),
    (3, "10.2.0.1", "b", 20, 6),
    (4, "2001:DB8::1", "b", -1, 7),
    (5, "1.1.1.1", "c", 0, 0),
    (6, None, None, 15, 19),
    (7, "10.1.9.9", "a", 21, 0),
]
# What is found by hand. The longest prefix of 2 has the threat that the condition excludes.
WANTED = [(1, "narrow", 1, "low"), (2, None, 2, "mid"), (3, "wide", 4, "mid"), (4, "six", 3, "low")]
WANTED += [(5, None, None, "low"), (6, None, None, "mid")]


def at(second: int | None) -> str | None:
    return None if second is None else (BEGIN + timedelta(seconds=second)).isoformat()


def test_lookup_join_by_network_and_interval_finds_what_the_fluent_form_does(tmp_path, driver):
    rows = {
        "feed": [{"cidr": cidr, "threat": threat} for cidr, threat in FEED],
        "prices": [{"item": i, "since": at(low), "until": at(high), "price": p} for i, low, high, p in PRICES],
        "classes": [{"low": low, "high": high, "class": name} for low, high, name in CLASSES],
    }
    for name, content in rows.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in content))
    pipeline = pipeline_from_sql(TABLES.format(folder=tmp_path), job="keys")
    shown = pipeline.describe()
    assert "in network cidr" in shown
    assert "in range since to until" in shown
    assert "in closed range low to high" in shown
    logs = [
        {"n": n, "ip": ip, "item": item, "ms": ms, "ts": BEGIN + timedelta(seconds=second)}
        for n, ip, item, ms, second in LOGS
    ]
    found = pipeline.try_(logs, spark=driver)["found"]
    assert [tuple(row.values()) for row in sorted(found, key=lambda row: row["n"])] == WANTED


def test_a_number_beyond_the_type_of_the_key_finds_nothing(tmp_path, driver):
    (tmp_path / "names.jsonl").write_text('{"id": 1, "name": "one"}\n')
    pipeline = pipeline_from_sql(f"""
        CREATE TABLE hits (k BIGINT) WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json');
        CREATE TABLE names (id INT, name STRING)
            WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/names.jsonl', 'format' = 'json');
        CREATE TABLE found (k BIGINT, name STRING) WITH ('connector' = 'print');
        INSERT INTO found SELECT h.k, d.name FROM hits AS h
            LEFT JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS d ON h.k = d.id;
    """)
    found = pipeline.try_([{"k": 1}, {"k": 2**32 + 1}, {"k": None}], spark=driver)["found"]
    assert {row["k"]: row["name"] for row in found} == {1: "one", 2**32 + 1: None, None: None}
