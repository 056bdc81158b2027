"""What the queries must give, by DuckDB in one batch over the same files; the table's columns are named alike."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from pipelines.nexmark.schemas import SCHEMAS, SIDE_INPUT

EUROS = "(0.908 * price)::decimal(23, 3)"
TEN = "interval 10 seconds"
# The bids that came while their auction was open, the best one first.
WINNERS = """
winners AS (
    SELECT a.*, b.auction AS bid_auction, b.bidder AS bid_bidder, b.price AS bid_price, b.date_time AS bid_date_time,
           b.extra AS bid_extra,
           row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time) AS place
    FROM auctions a JOIN bids b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
)
"""
RANKS = {
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}
BIDS_BY_RANK = ", ".join(f"count(*) FILTER ({where}) AS {rank}_bids" for rank, where in RANKS.items())
OTHERS_BY_RANK = ", ".join(
    f"count(DISTINCT {what}) FILTER ({where}) AS {rank}_{what}s"
    for rank, where in {"total": "true", **RANKS}.items()
    for what in ("bidder", "auction")
)
DAY = "date_trunc('day', date_time) AS start_time"

SQL = {
    "q0": "SELECT * FROM bids",
    "q1": f"SELECT * REPLACE ({EUROS} AS price) FROM bids",
    "q2": "SELECT auction, price FROM bids WHERE auction % 123 = 0",
    "q3": """
        SELECT name, city, state, a.id FROM auctions a JOIN persons p ON a.seller = p.id
        WHERE category = 10 AND state IN ('OR', 'ID', 'CA')
    """,
    "q4": f"""
        WITH {WINNERS} SELECT category, sum(bid_price)::bigint // count(*) AS final FROM winners WHERE place = 1
        GROUP BY category
    """,
    "q5": f"""
        WITH hops AS (
            SELECT *, unnest(range(0, 10, 2)) AS back FROM bids
        ), counts AS (
            SELECT auction, count(*) AS num,
                   time_bucket(interval 2 seconds, date_time) - back * interval 1 second AS window_start
            FROM hops GROUP BY ALL
        )
        SELECT num, auction, window_start, window_start + {TEN} AS window_end FROM counts
        QUALIFY num = max(num) OVER (PARTITION BY window_start)
    """,
    "q6": f"""
        WITH {WINNERS}, latest AS (
            SELECT seller, bid_price FROM winners WHERE place = 1
            QUALIFY row_number() OVER (PARTITION BY seller ORDER BY bid_date_time DESC, id DESC) <= 10
        )
        SELECT seller, sum(bid_price)::bigint // count(*) AS avg_price FROM latest GROUP BY seller
    """,
    "q7": f"""
        WITH highest AS (
            SELECT max(price) AS price, time_bucket({TEN}, date_time) + {TEN} AS end_time FROM bids GROUP BY ALL
            HAVING price IS NOT NULL
        )
        SELECT auction, bidder, price, date_time, extra, end_time FROM bids JOIN highest USING (price)
        WHERE date_time BETWEEN end_time - {TEN} AND end_time
    """,
    "q8": f"""
        SELECT DISTINCT p.id, name, time_bucket({TEN}, p.date_time) AS start_time
        FROM persons p JOIN auctions a ON p.id = a.seller
        AND time_bucket({TEN}, p.date_time) = time_bucket({TEN}, a.date_time)
    """,
    "q9": f"WITH {WINNERS} SELECT * EXCLUDE (place) FROM winners WHERE place = 1",
    "q10": "SELECT *, strftime(date_time, '%Y-%m-%d') AS dt, strftime(date_time, '%H:%M') AS hm FROM bids",
    "q11": f"""
        WITH marked AS (
            SELECT *, coalesce(date_time - lag(date_time) OVER w >= {TEN}, true)::int AS first FROM bids
            WINDOW w AS (PARTITION BY bidder ORDER BY date_time)
        ), numbered AS (
            SELECT *, sum(first) OVER (PARTITION BY bidder ORDER BY date_time) AS session FROM marked
        )
        SELECT bidder, count(*) AS bid_count, min(date_time) AS start_time, max(date_time) + {TEN} AS end_time
        FROM numbered GROUP BY bidder, session
    """,
    "q13": """
        SELECT auction, bidder, price, date_time, value FROM bids JOIN side_input ON auction % 10000 = side_input.key
    """,
    "q14": f"""
        SELECT auction, bidder, {EUROS} AS price,
               CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
                    WHEN hour(date_time) IN (7, 19) THEN 'otherTime' ELSE 'nightTime' END AS bid_time_type,
               date_time, extra, len(list_filter(string_split(extra, ''), lambda letter: letter = 'c')) AS c_counts
        FROM bids WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
    """,
    "q15": f"SELECT {DAY}, count(*) AS total_bids, {BIDS_BY_RANK}, {OTHERS_BY_RANK} FROM bids GROUP BY ALL",
    "q16": f"""
        SELECT channel, {DAY}, max(strftime(date_time, '%H:%M')) AS minute, count(*) AS total_bids, {BIDS_BY_RANK},
               {OTHERS_BY_RANK}
        FROM bids GROUP BY ALL
    """,
    "q17": f"""
        SELECT auction, {DAY}, count(*) AS total_bids, {BIDS_BY_RANK}, min(price) AS min_price, max(price) AS max_price,
               sum(price)::bigint // count(*) AS avg_price, sum(price)::bigint AS sum_price
        FROM bids GROUP BY ALL
    """,
    "q18": """
        SELECT * FROM bids QUALIFY row_number() OVER (
            PARTITION BY bidder, auction ORDER BY date_time DESC, price DESC, channel DESC, url DESC, extra DESC) = 1
    """,
    "q19": """
        SELECT *, row_number() OVER best AS rank_number FROM bids
        WINDOW best AS (PARTITION BY auction ORDER BY price DESC, date_time DESC, bidder DESC)
        QUALIFY rank_number <= 10
    """,
    "q20": """
        SELECT b.*, a.id AS auction_id, a.item_name AS auction_item_name, a.description AS auction_description,
               a.initial_bid AS auction_initial_bid, a.reserve AS auction_reserve, a.date_time AS auction_date_time,
               a.expires AS auction_expires, a.seller AS auction_seller, a.category AS auction_category,
               a.extra AS auction_extra
        FROM bids b JOIN auctions a ON b.auction = a.id WHERE category = 10
    """,
    "q21": """
        SELECT auction, bidder, price, channel, channel_id FROM (
            SELECT *, coalesce(
                map {'apple': '0', 'google': '1', 'facebook': '2', 'baidu': '3'}[lower(channel)],
                nullif(string_split(string_split(url, '&channel_id=')[2], '&')[1], '')) AS channel_id FROM bids)
        WHERE channel_id IS NOT NULL
    """,
    "q22": """
        SELECT auction, bidder, price, channel, string_split(url, '/')[4] AS dir1, string_split(url, '/')[5] AS dir2,
               string_split(url, '/')[6] AS dir3
        FROM bids
    """,
}


def compare(query: str, folder: Path, table: pa.Table) -> tuple[int, int, int]:
    """How many rows the query gives over the files below `folder`, how many `table` lacks, and has too many."""
    with duckdb.connect() as database:
        for kind, schema in SCHEMAS.items():
            columns = dict(field.split() for field in schema.split(", "))
            database.execute(f"CREATE VIEW {kind} AS FROM read_json('{folder / kind}/*.jsonl', columns = {columns})")
        database.execute(f"CREATE VIEW side_input AS FROM read_csv('{folder / SIDE_INPUT}')")
        database.execute("SET TimeZone = 'UTC'")
        database.execute(f"CREATE TABLE expected AS {SQL[query]}")
        types = {name: kind for name, kind, *_ in database.execute("DESCRIBE expected").fetchall()}
        assert set(types) <= set(table.column_names)
        database.register("found", table)
        shown = ", ".join(
            f"{name}::{'timestamp' if kind == 'TIMESTAMP' else 'varchar'}" for name, kind in types.items()
        )
        database.execute(f"CREATE TABLE written AS SELECT {shown} FROM found")
        return tuple(
            database.execute(f"SELECT count(*) FROM ({sql})").fetchall()[0][0]
            for sql in (
                "FROM expected",
                f"(SELECT {shown} FROM expected) EXCEPT ALL FROM written",
                f"FROM written EXCEPT ALL (SELECT {shown} FROM expected)",
            )
        )
