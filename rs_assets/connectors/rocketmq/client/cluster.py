"""Addresses and credentials of a RocketMQ cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rs_assets.common.node import NO_EFFECT
from rs_assets.common.secrets import Deferred, Hidden, Secret, revealed, without_userinfo
from rs_assets.connectors.rocketmq.client.frames import Credentials
from rs_assets.connectors.rocketmq.client.names import ADDRESS
from rs_assets.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Access:
    """What a client needs: the name servers, and the credentials if brokers ask for them. It contains the secret."""

    servers: tuple[str, ...]
    credentials: Credentials | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketMQCluster:
    """The name servers of a cluster, and its login. Secrets are never shown, compared or stored.

    `name_server` is `host:port`, several separated by semicolons. `access_key` and `secret_key` are those of a user of
    the brokers' access control; each is text or, better, Dagster's `EnvVar("NAME")`, which is read when a connection is
    made.

    >>> RocketMQCluster(name_server="localhost:9876", access_key="me", secret_key="s")
    RocketMQCluster(name_server='localhost:9876', access_key='***')
    """

    name_server: str | Deferred
    access_key: Secret | None = field(default=None, repr=False, compare=False, metadata=NO_EFFECT)
    secret_key: Secret | None = field(default=None, repr=False, compare=False, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Hide secrets given as text; ConfigurationError for malformed addresses and half a login."""
        for name in ("access_key", "secret_key"):
            secret = getattr(self, name)
            if isinstance(secret, str) and not isinstance(secret, Deferred):
                object.__setattr__(self, name, Hidden(secret))
        if isinstance(self.name_server, Deferred):
            object.__setattr__(self, "name_server", revealed(self.name_server, what="name_server of RocketMQ"))
        for address in self.servers:
            match = ADDRESS.fullmatch(address)
            if match is None or not 0 < int(match[1]) < 65_536:
                raise ConfigurationError(
                    f"{without_userinfo(address)!r} is not the address of a name server",
                    remedy="write it as 'host:port', several as 'host:port;host:port'",
                )
        if (self.access_key is None) != (self.secret_key is None):
            raise ConfigurationError(
                "access_key and secret_key belong together", remedy="access_key=EnvVar('...'), secret_key=EnvVar('...')"
            )

    def __repr__(self) -> str:
        """The addresses, and whether there is a login."""
        login = ", access_key='***'" if self.access_key is not None else ""
        return f"RocketMQCluster(name_server={';'.join(self.servers)!r}{login})"

    @classmethod
    def of(cls, servers: str | RocketMQCluster | Deferred) -> RocketMQCluster:
        """A cluster without a login for text or an `EnvVar`; a cluster is returned unchanged.

        >>> RocketMQCluster.of("localhost:9876").servers
        ('localhost:9876',)
        """
        if isinstance(servers, RocketMQCluster):
            return servers
        if not isinstance(servers, str | Deferred):
            raise ConfigurationError(f"name_server must be 'host:port' or a RocketMQCluster, not {servers!r}")
        # An EnvVar is also text, namely its name.
        return cls(name_server=servers)

    @property
    def servers(self) -> tuple[str, ...]:
        """The addresses of the name servers as a tuple."""
        return tuple(part.strip() for part in re.split("[;,]", str(self.name_server)))

    def access(self) -> Access:
        """What a client needs, with the secrets: for this process and Spark's Python workers only."""
        if self.access_key is None:
            return Access(self.servers)
        key = revealed(self.access_key, what="access_key for RocketMQ")
        return Access(self.servers, Credentials(key, revealed(self.secret_key, what="secret_key for RocketMQ")))
