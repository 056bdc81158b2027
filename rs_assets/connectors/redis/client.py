"""Connections to Redis for one piece of work, and the errors of the server without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any, Final

from rs_assets.common.extras import check_extra
from rs_assets.connectors.redis.address import RedisAddress
from rs_assets.errors import RsError

# The client of redis-py, whose types leave open whether answers are text or bytes: they are bytes.
RedisClient = Any
PATIENCE: Final = timedelta(seconds=30)
SHOWN: Final = 300
# The remedy by the kind of error, the first that fits.
RIGHTS: Final = "correct user and password of the URL, or give the user the rights to its keys and to scripts"
AWAY: Final = "check that the server answers at this address, then start again: nothing of the batch is lost"
REMEDIES: Final = (
    (("AuthenticationError", "NoPermissionError"), RIGHTS),
    (("ReadOnlyError",), "name the primary server in the URL: this one is a replica"),
    (("OutOfMemoryError",), "give the server more memory, or let keys expire (ttl=)"),
    (("TimeoutError", "ConnectionError", "BusyLoadingError"), AWAY),
)
OTHERS: Final = "see the text of the server"


@contextmanager
def connected(
    address: RedisAddress, failure: type[RsError], *, step: str, patience: timedelta = PATIENCE
) -> Iterator[RedisClient]:
    """A client for the block; errors of the server in it become `failure`, without the login."""
    check_extra("redis", f"step {step!r}")
    with redis_errors(address, failure, step=step), closing(client_of(address, patience)) as client:
        yield client


def client_of(address: RedisAddress, patience: timedelta = PATIENCE) -> RedisClient:
    """A client with one connection, which is not shared with other threads and repeats no command."""
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    seconds = patience.total_seconds()
    settings: dict[str, Any] = {
        **address.settings,
        "socket_timeout": seconds,
        "socket_connect_timeout": seconds,
        # A command that was sent may have been executed: only its caller knows whether it may come twice.
        "retry": Retry(NoBackoff(), 0),
        "single_connection_client": True,
        "protocol": 2,
    }
    return Redis(**settings)


@contextmanager
def redis_errors(address: RedisAddress, failure: type[RsError], *, step: str) -> Iterator[None]:
    """Errors of the client in the block become `failure`."""
    from redis.exceptions import RedisError

    try:
        yield
    except RedisError as error:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        remedy = next((remedy for names, remedy in REMEDIES if kinds & {*names}), OTHERS)
        raise failure(
            f"Redis of step {step!r}: {_said(error, address)}", remedy=remedy, step=step, place=address.place
        ) from None


def _said(error: Exception, address: RedisAddress) -> str:
    said = " ".join(str(error).split()) or type(error).__name__
    return (said.replace(address.password, "***") if address.password else said)[:SHOWN]


def refuse_cluster(client: RedisClient, failure: type[RsError], *, step: str) -> None:
    """`failure` for a server of a Redis Cluster."""
    if int(client.info("cluster").get("cluster_enabled", 0)):
        raise failure(
            f"step {step!r}: the server belongs to a Redis Cluster, whose keys are on several servers: a script can"
            " neither write rows and their mark in one step there, nor see what another server has",
            remedy="use a server without cluster mode, with replicas if it must not fail",
            step=step,
        )
