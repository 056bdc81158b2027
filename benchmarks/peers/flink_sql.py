"""Nexmark's queries as Flink takes them: the project's own SQL, with what must differ.

All files: a sink of Flink's in the place of our Delta table, and times of the type that its JSON format reads with a Z.
Of single queries, `DIFFERS` tells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pipelines.nexmark.in_sql import FOLDER, TABLES
from pipelines.nexmark.sources import LONGEST_AUCTION

# Their rows change, which Flink's files cannot hold: they go to `blackhole`, which drops them.
CHANGING = frozenset({"q4", "q6", "q9", "q15", "q16", "q17", "q18", "q19"})
# Flink drops what a window by the clock holds when the input ends.
BY_CLOCK = frozenset({"q12"})

DIFFERS: Mapping[str, str] = MappingProxyType(
    {
        "q6": "of rankings, as ours is of `max_by`: Flink has no OVER with a bound over rows that change",
        "q12": "windows that are open when the input ends are dropped, so its rows are not compared",
        "q13": "joined as of the bid's time: Flink's files cannot be looked up, so bids wait for the watermark",
        "q14": "`count_char` by REPLACE, as ours does it: as a Python function it would be measured instead of Flink",
    }
)

_Q6 = """
CREATE TABLE q6 (seller BIGINT, avg_price BIGINT) WITH ('connector' = 'delta', 'table' = 'q6');
CREATE VIEW in_time AS
SELECT a.id, a.seller, b.price, b.date_time
FROM auctions AS a
JOIN bids AS b
    ON a.id = b.auction
    AND b.date_time BETWEEN a.date_time AND a.date_time + INTERVAL '${LONGEST}' SECOND
    AND b.date_time <= a.expires;
CREATE VIEW winners AS
SELECT id, seller, price, date_time
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id, seller ORDER BY price DESC, date_time ASC) AS place FROM in_time)
WHERE place = 1;
INSERT INTO q6
SELECT seller, AVG(price)
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY seller ORDER BY date_time DESC, id DESC) AS place FROM winners)
WHERE place <= 10
GROUP BY seller;
"""
_DELTA = re.compile(r"WITH \('connector' = 'delta', 'table' = '\w+'\)")
_COUNT_CHAR = "CAST(CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS BIGINT)"
_VERSIONED = "since AS TO_TIMESTAMP_LTZ(0, 3), WATERMARK FOR since AS since, PRIMARY KEY (key) NOT ENFORCED"

# What stands in our files, and what Flink gets for it.
_IN_TABLES = (
    ("date_time TIMESTAMP(3)", "date_time TIMESTAMP_LTZ(3)"),
    ("expires TIMESTAMP(3)", "expires TIMESTAMP_LTZ(3)"),
    (", 'max-files-per-batch' = '1'", ", 'json.timestamp-format.standard' = 'ISO-8601'"),
    (
        "(key BIGINT, `value` STRING)",
        f"(key BIGINT, `value` STRING, {_VERSIONED})",
    ),
)
_IN_QUERIES: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "q13": (("(SELECT *, PROCTIME() AS arrived FROM bids)", "bids"), ("b.arrived", "b.date_time")),
        "q14": (
            ("CREATE FUNCTION count_char AS 'com.github.nexmark.flink.udf.CountChar';", ""),
            ("count_char(extra, 'c')", _COUNT_CHAR),
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkSql:
    """The statements of one query: those that prepare, then `insert`. `select` is its part that makes the rows."""

    query: str
    prepare: tuple[str, ...]
    insert: str

    @classmethod
    def of(cls, query: str, *, events: Path, rows: Path) -> FlinkSql:
        """Over the dealt events in the folder `events`; `rows` is where rows go."""
        tables = _replaced(TABLES.read_text(encoding="utf-8"), _IN_TABLES)
        own = _Q6 if query == "q6" else (FOLDER / f"{query}.sql").read_text(encoding="utf-8")
        text = tables + _DELTA.sub(_sink(query, rows), _replaced(own, _IN_QUERIES.get(query, ())))
        longest = str(LONGEST_AUCTION.total_seconds())
        for variable, value in (("NEXMARK", events), ("LONGEST", longest)):
            text = text.replace(f"${{{variable}}}", str(value))
        *prepare, insert = statements(text)
        return cls(query=query, prepare=tuple(prepare), insert=insert)

    @property
    def count(self) -> str:
        """How many rows the query has in the end; it changes with them."""
        return f"SELECT COUNT(*) FROM ({self.insert.removeprefix(f'INSERT INTO {self.query}').strip()})"


def statements(text: str) -> tuple[str, ...]:
    """The statements of a text without remarks.

    >>> statements("SELECT 1; -- one; two\\nSELECT 2;")
    ('SELECT 1', 'SELECT 2')
    """
    code = re.sub(r"--.*", "", text)
    return tuple(statement for part in code.split(";") if (statement := part.strip()))


def _sink(query: str, rows: Path) -> str:
    if query in CHANGING:
        return "WITH ('connector' = 'blackhole')"
    return f"WITH ('connector' = 'filesystem', 'path' = '{rows}', 'format' = 'json')"


def _replaced(text: str, pairs: tuple[tuple[str, str], ...]) -> str:
    for ours, flinks in pairs:
        if ours not in text:
            raise ValueError(f"the SQL has no {ours!r} any more: mend the table of what differs for Flink")
        text = text.replace(ours, flinks)
    return text
