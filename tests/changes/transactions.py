"""Random transactions over a table `t`: of a seed and a number always the same statements."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

KEYS = 1_000
# Shares of transactions: those that empty the table and fill it again, those that alter it, and those rolled back.
RELOADED, ALTERED, ROLLED_BACK, WITH_SAVEPOINT = 0.0003, 0.003, 0.15, 0.2
# So many times a mark makes a text that the database stores apart from its row.
LARGE = 400

COMMON = (
    "UPDATE t SET v = '{mark}', n = {cents} WHERE id = {key}",
    "UPDATE t SET v = '{mark}', n = {cents} WHERE id = {key}",
    "UPDATE t SET v = '{mark}', n = n + 1 WHERE id BETWEEN {key} AND {key} + 2",
    "UPDATE t SET big = repeat('{mark}', {times}) WHERE id = {key}",
    "DELETE FROM t WHERE id = {key}",
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The statements of a database, with places for key, mark and values; `reloads` are those of a transaction each."""

    own: tuple[str, ...]
    alters: tuple[str, ...]
    reloads: tuple[tuple[str, ...], ...]


ROW = "INSERT INTO t (id, v, n, at, big) VALUES ({key}, '{mark}', {cents}, {now}, repeat('{mark}', {times}))"
ROWS = (
    "INTO t (id, v, n, at, big) VALUES ({key}, '{mark}', {cents}, {now}, NULL), ({other}, NULL, NULL, NULL, '{mark}')"
)
# Not UPDATE IGNORE of MariaDB, whose triggers note what was not done.
MOVED = (
    "UPDATE t SET id = {other}, v = '{mark}' WHERE id = {key} AND NOT EXISTS (SELECT 1 FROM t o WHERE o.id = {other})"
)

POSTGRES = Dialect(
    own=(
        f"{ROW} ON CONFLICT (id) DO UPDATE SET v = '{{mark}}', at = {{now}}",
        f"INSERT {ROWS} ON CONFLICT DO NOTHING",
        MOVED,
    ),
    alters=(
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS w{digit} int DEFAULT {digit}",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS w{digit} text",
        "ALTER TABLE t DROP COLUMN IF EXISTS w{digit}",
        "ALTER TABLE t ALTER COLUMN v TYPE varchar({wide})",
        "BEGIN; ALTER TABLE t ADD COLUMN x int; UPDATE t SET v = '{mark}', x = 1 WHERE id = {key}; ROLLBACK",
        "CREATE INDEX ON t (n); DROP INDEX t_n_idx",
    ),
    reloads=tuple(
        (
            "BEGIN",
            "LOCK TABLE t",
            "DELETE FROM t WHERE id % 7 = {digit} % 7",
            "CREATE TEMPORARY TABLE kept ON COMMIT DROP AS SELECT id, v, n, at, big FROM t",
            "TRUNCATE t",
            "INSERT INTO t (id, v, n, at, big) SELECT id, '{mark}', n, at, big FROM kept",
            end,
        )
        for end in ("COMMIT", "COMMIT", "ROLLBACK")
    ),
)

MARIADB = Dialect(
    own=(
        f"{ROW} ON DUPLICATE KEY UPDATE v = '{{mark}}', at = {{now}}",
        f"INSERT IGNORE {ROWS}",
        MOVED,
    ),
    alters=(
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS w{digit} int DEFAULT {digit}",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS w{digit} varchar(9) FIRST",
        "ALTER TABLE t DROP COLUMN IF EXISTS w{digit}",
        "ALTER TABLE t COMMENT 'x{digit}', FORCE",
        "FLUSH BINARY LOGS",
    ),
    # A TRUNCATE is a transaction of its own: the rows are deleted before, and those that are killed here stay deleted.
    reloads=(
        (
            "LOCK TABLES t WRITE",
            "DELETE FROM t",
            "TRUNCATE TABLE t",
            "UNLOCK TABLES",
            "INSERT IGNORE INTO t (id, v) SELECT seq, '{mark}' FROM seq_1_to_500",
        ),
    ),
)


def transaction(seed: int, number: int, dialect: Dialect) -> list[str]:
    """The statements of one transaction, with its begin and its end."""
    chance = random.Random(f"{seed} {number}")
    kind = chance.random()
    if kind < RELOADED:
        return _filled(chance.choice(dialect.reloads), chance, number)
    if kind < RELOADED + ALTERED:
        return _filled((chance.choice(dialect.alters),), chance, number)
    drawn = [chance.choice(COMMON + dialect.own) for _ in range(chance.choice((1, 1, 2, 3, 5)))]
    if chance.random() < WITH_SAVEPOINT:
        undone, after = (chance.choice(COMMON + dialect.own) for _ in range(2))
        drawn += ["SAVEPOINT s", undone, "ROLLBACK TO SAVEPOINT s", after]
    end = "ROLLBACK" if chance.random() < ROLLED_BACK else "COMMIT"
    return _filled(("BEGIN", *drawn, end), chance, number)


def _filled(forms: Sequence[str], chance: random.Random, number: int) -> list[str]:
    """The statements with keys and values. Each has a mark of its own, so that each update changes its rows."""
    return [
        form.format(
            key=chance.randrange(KEYS),
            other=chance.randrange(KEYS),
            mark=f"m{number}.{place}",
            cents=chance.randrange(-99_999, 99_999) / 100,
            times=chance.choice((1, 1, 1, LARGE)),
            now="CURRENT_TIMESTAMP(6)",
            digit=number % 10,
            wide=60 + number // 100,
        )
        for place, form in enumerate(forms)
    ]
