"""Database URLs for SQLAlchemy that are never shown, and engines for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from sqlalchemy import URL, Engine, Table, create_engine, inspect, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from rs_assets.common.secrets import without
from rs_assets.errors import ConfigurationError

# The most characters of what a driver said.
SHOWN = 200


def parsed_url(url: str | None, *, what: str) -> URL:
    """The parsed URL; ConfigurationError, which does not show it, if it is missing or malformed. `what` names its use.

    >>> parsed_url("sqlite:///users.db", what="the dimension").database
    'users.db'
    """
    try:
        parsed = make_url(url) if url else None
        # A second @ belongs to a password that was not quoted; the rest of that password would be shown.
        if parsed is not None and not (parsed.password and "@" in f"{parsed.host}{parsed.database}"):
            return parsed
    # ValueError: the port is not a number; its text may be part of the password.
    except (SQLAlchemyError, ValueError):
        pass
    raise ConfigurationError(
        f"{what} has no valid database URL",
        remedy="give one like postgresql+psycopg://user:password@host:5432/name; a password's : is %3A, its @ %40",
    )


def engine_of(
    url: URL, *, pooled: bool = True, timeout_s: int | None = None, connect: Mapping[str, Any] | None = None
) -> Engine:
    """An engine whose errors show no values; ConfigurationError if its driver is not installed.

    Without a pool each connection is closed after its use. `timeout_s` is how long SQLite waits for another writer,
    `connect` are arguments of the driver.
    """
    settings: dict[str, Any] = {"pool_pre_ping": True} if pooled else {"poolclass": NullPool}
    settings["connect_args"] = {**(connect or {})}
    if timeout_s is not None and url.get_backend_name() == "sqlite":
        settings["connect_args"]["timeout"] = timeout_s
    try:
        return create_engine(url, hide_parameters=True, **settings)
    except (SQLAlchemyError, ImportError, TypeError, ValueError):
        raise ConfigurationError(
            f"no database driver for {url.drivername!r} is installed, or it does not accept the parameters of the URL",
            remedy="install the driver's Python package, or name another one: dialect+driver://",
        ) from None


def create_table(engine: Engine, table: Table) -> None:
    """Create `table` if it is missing."""
    try:
        table.metadata.create_all(engine)
    except SQLAlchemyError:
        # Another process may have created it at this moment.
        if not inspect(engine).has_table(table.name):
            raise


def cause_of(error: Exception, url: URL) -> str:
    """What the driver said, without secrets: its text and arguments may hold some."""
    return without(secrets_of(url), str(getattr(error, "orig", None) or error))[:SHOWN]


def where(url: URL) -> dict[str, str | None]:
    """The parts of a URL that may be shown."""
    return {"database": url.database, "host": url.host, "dialect": url.get_backend_name()}


def secrets_of(url: URL) -> tuple[str, ...]:
    """The parts of a URL that must not be shown (password, parameters), in every encoding; the longest first."""
    values = [str(url.password or "")]
    for value in url.query.values():
        values += [value] if isinstance(value, str) else value
    written = {form for value in values if value for form in (value, quote(value, safe=""), quote_plus(value))}
    return tuple(sorted(written, key=len, reverse=True))
