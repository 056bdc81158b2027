"""The connectors of tables for all uses of a table."""

from __future__ import annotations

from typing import Final

from rs_assets.sql.plan.joins.dimensions import KINDS
from rs_assets.sql.read.options import Options, names_of
from rs_assets.sql.read.source import Text, nearest
from rs_assets.sql.read.statements import CreateTable
from rs_assets.sql.systems.registry import SQL_SINKS, SQL_SOURCES

KNOWN: Final = tuple(dict.fromkeys([*names_of({**SQL_SOURCES, **SQL_SINKS}), *KINDS, "db"]))


def check_connector(text: Text, table: CreateTable) -> None:
    """SqlError for an unknown connector, before the table is used."""
    options = Options.of(text, table, "table")
    name = options.need("connector", "filesystem")
    if name not in KNOWN:
        pair = next(pair for pair in table.options.values() if pair[1].text == name)
        raise options.error(f"unknown connector {name!r}", at=pair[1].start, remedy=nearest(name, KNOWN))
