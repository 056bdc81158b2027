"""Connections to databases: what is set for a session, whatever the settings of the server and the user are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import URL, Connection

DIALECTS: Final = ("mysql", "mariadb")
# The drivers whose sessions are set, and the one that LOAD DATA is used with.
DRIVERS: Final = ("pymysql", "mysqldb")
LOADS: Final = "pymysql"
# How long a statement waits for others, and the server for a connection within a transaction whose process is paused.
PATIENCE_S, PAUSED_S = 60, 30
# Values are written as they are or refused, times are UTC.
SESSION: Final = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00',"
    f" lock_wait_timeout = {PATIENCE_S}, innodb_lock_wait_timeout = {PATIENCE_S}, wait_timeout = {PAUSED_S}"
)


def settings_of(url: URL) -> Mapping[str, Any]:
    """Arguments of the drivers psycopg, PyMySQL and mysqlclient; none for others."""
    if url.get_backend_name() == "postgresql" and url.get_driver_name() == "psycopg":
        return {"client_encoding": "UTF8"}
    if url.get_backend_name() not in DIALECTS or url.get_driver_name() not in DRIVERS:
        return {}
    own = {"local_infile": True} if url.get_driver_name() == LOADS else {}
    return {"charset": "utf8mb4", "init_command": SESSION, **own}


def driver_of(connection: Connection) -> Any:
    """The driver's own connection, in the same transaction: it takes statements as they are, colons in names too."""
    return connection.connection.driver_connection
