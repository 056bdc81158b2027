"""MySQL in SQL: its tables are read as those of MariaDB."""

from __future__ import annotations

from functools import partial

from rs_assets.connectors.changes.nodes import CHANGE_TYPES
from rs_assets.connectors.connector import Connector, SqlSource
from rs_assets.connectors.mariadb.connector import read_table

# As Flink calls it, for MariaDB as well.
NAME = "mysql-cdc"
SQL_SOURCE = SqlSource(read=partial(read_table, connector=NAME), metadata=CHANGE_TYPES)
CONNECTOR = Connector(name=NAME, sql=__name__)
