"""Databases that SQLAlchemy knows: a url that is never shown, and an engine for it."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, quote_plus

from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.exc import SQLAlchemyError

from rs_assets.errors import ConfigurationError


def parsed_url(url: str | None, *, what: str) -> URL:
    """The url; ConfigurationError, without a word of it, if there is none or it is not one. `what` is what it is for.

    >>> parsed_url("sqlite:///users.db", what="the dimension").database
    'users.db'
    """
    try:
        parsed = make_url(url) if url else None
        # An @ behind the first one belongs to a password that was not quoted, the rest of which would be shown.
        if parsed is not None and not (parsed.password and "@" in f"{parsed.host}{parsed.database}"):
            return parsed
    # ValueError: a port that is no number, whose text may be a part of the password.
    except (SQLAlchemyError, ValueError):
        pass
    raise ConfigurationError(
        f"{what} has no url that can be used",
        remedy="give one like postgresql+psycopg://user:password@host:5432/name; a password's : is %3A, its @ %40",
    )


def engine_of(url: URL) -> Engine:
    """An engine whose errors show no values; ConfigurationError if there is no driver for it."""
    try:
        return create_engine(url, hide_parameters=True, pool_pre_ping=True)
    except (SQLAlchemyError, ImportError, TypeError, ValueError):
        raise ConfigurationError(
            f"there is no database driver for {url.drivername!r}, or it does not take the url's parameters",
            remedy="install the driver's Python package, or name another one: dialect+driver://",
        ) from None


def where(url: URL) -> dict[str, str | None]:
    """What of a url may be shown."""
    return {"database": url.database, "host": url.host, "dialect": url.get_backend_name()}


def secrets_of(url: URL) -> tuple[str, ...]:
    """What must not be shown: the password and the parameters, in each way they may be written; the longest first."""
    values = [str(url.password or "")]
    for value in url.query.values():
        values += [value] if isinstance(value, str) else value
    written = {form for value in values if value for form in (value, quote(value, safe=""), quote_plus(value))}
    return tuple(sorted(written, key=len, reverse=True))


def without(secrets: Sequence[str], text: str) -> str:
    """`text` with stars in the place of each secret.

    >>> without(("geheim",), "no login for me:geheim")
    'no login for me:***'
    """
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
