"""Connection settings of a Kafka cluster, for both Spark's connector (Java names) and kafka-python."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from rs_assets.common.extras import check_extra
from rs_assets.common.node import NO_EFFECT
from rs_assets.common.secrets import Deferred, Hidden, Secret, revealed, without_userinfo
from rs_assets.connectors.kafka.client.jaas import jaas
from rs_assets.connectors.kafka.client.oauth import KafkaOAuth
from rs_assets.connectors.kafka.client.quiet import keep_quiet
from rs_assets.errors import ConfigurationError

Protocols = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

# A host name, an IPv4 address or an IPv6 address in brackets, and a port.
ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):([0-9]{1,5})")
LOGIN_MODULES: Mapping[str, str] = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
# Which of username, password and oauth are given together, by whether the protocol requires a login.
LOGINS: Mapping[bool, tuple[tuple[bool, bool, bool], ...]] = {
    True: ((True, True, False), (False, False, True)),
    False: ((False, False, False),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCluster:
    """Addresses and credentials of a cluster. Passwords are never shown, compared or stored.

    `bootstrap_servers` is `host:port`, several separated by commas. `password` and `key_password` are text or, better,
    Dagster's `EnvVar("NAME")`, which is read when a connection is made. `ca_file` has the authorities in PEM form;
    `certificate_file` and `key_file` are the client certificate, for brokers that require one. With a protocol that
    begins with SASL a client logs in by `username` and `password`, or by the tokens of `oauth`.

    >>> KafkaCluster(bootstrap_servers="localhost:9092", username="me", password="p", protocol="SASL_SSL")
    KafkaCluster(bootstrap_servers='localhost:9092', protocol='SASL_SSL', username='me', mechanism='PLAIN')
    """

    bootstrap_servers: str | Deferred
    protocol: Protocols = field(default="PLAINTEXT", metadata=NO_EFFECT)
    username: str | None = field(default=None, metadata=NO_EFFECT)
    password: Secret | None = field(default=None, repr=False, compare=False, metadata=NO_EFFECT)
    mechanism: Mechanism = field(default="PLAIN", metadata=NO_EFFECT)
    oauth: KafkaOAuth | None = field(default=None, metadata=NO_EFFECT)
    ca_file: str | None = field(default=None, metadata=NO_EFFECT)
    certificate_file: str | None = field(default=None, metadata=NO_EFFECT)
    key_file: str | None = field(default=None, metadata=NO_EFFECT)
    key_password: Secret | None = field(default=None, repr=False, compare=False, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Hide secrets given as text; refuse malformed addresses and incompatible options.

        ConfigurationError if the Kafka client is not installed.
        """
        check_extra("kafka", "Kafka")
        for name in ("password", "key_password"):
            secret = getattr(self, name)
            if isinstance(secret, str) and not isinstance(secret, Deferred):
                object.__setattr__(self, name, Hidden(secret))
        if isinstance(self.bootstrap_servers, Deferred):
            object.__setattr__(
                self, "bootstrap_servers", revealed(self.bootstrap_servers, what="bootstrap_servers for Kafka")
            )
        for address in self.servers:
            match = ADDRESS.fullmatch(address)
            if match is None or not 0 < int(match[1]) < 65_536:
                raise ConfigurationError(
                    f"{without_userinfo(address)!r} is not a broker address", remedy="write it as 'host:port'"
                )
        if self.protocol not in get_args(Protocols):
            raise ConfigurationError(f"unknown protocol {self.protocol!r}", remedy=f"use one of {get_args(Protocols)}")
        if self.mechanism not in get_args(Mechanism):
            raise ConfigurationError(
                f"unknown mechanism {self.mechanism!r}", remedy=f"use one of {get_args(Mechanism)}"
            )
        given = tuple(each is not None for each in (self.username, self.password, self.oauth))
        if given not in LOGINS[self.with_login]:
            raise ConfigurationError(
                "a login (username and password, or oauth) belongs to the protocols SASL_PLAINTEXT and SASL_SSL, which"
                " need one",
                remedy="protocol='SASL_SSL', username='...', password=EnvVar('...')",
            )

    def __repr__(self) -> str:
        """The settings without passwords and without defaults."""
        shown = {"bootstrap_servers": ",".join(self.servers), "protocol": self.protocol}
        if self.with_login:
            shown |= {"username": str(self.username), "mechanism": self.mechanism} if self.oauth is None else {}
        login = f", oauth={self.oauth!r}" if self.oauth is not None else ""
        return f"KafkaCluster({', '.join(f'{name}={value!r}' for name, value in shown.items())}{login})"

    @classmethod
    def of(cls, servers: str | KafkaCluster | Deferred) -> KafkaCluster:
        """A cluster without credentials for text or an `EnvVar`; a cluster is returned unchanged.

        >>> KafkaCluster.of("localhost:9092").protocol
        'PLAINTEXT'
        """
        if isinstance(servers, KafkaCluster):
            return servers
        if not isinstance(servers, str | Deferred):
            raise ConfigurationError(f"bootstrap_servers must be 'host:port' or a KafkaCluster, not {servers!r}")
        # An EnvVar is also text, namely its name.
        return cls(bootstrap_servers=servers)

    @property
    def servers(self) -> tuple[str, ...]:
        """The addresses as a tuple."""
        return tuple(part.strip() for part in str(self.bootstrap_servers).split(","))

    @property
    def with_login(self) -> bool:
        """Whether the protocol requires a login."""
        return self.protocol.startswith("SASL_")

    @property
    def with_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.protocol.endswith("SSL")

    def for_spark(self) -> dict[str, str]:
        """Options of Spark's connector, including the secrets: pass them to Spark only."""
        self._prepare()
        made: dict[str, str | None] = {
            "kafka.bootstrap.servers": ",".join(self.servers),
            "kafka.security.protocol": self.protocol if self.protocol != "PLAINTEXT" else None,
        }
        if self.oauth is not None:
            made |= self.oauth.for_spark()
        elif self.with_login:
            login = {"username": str(self.username), "password": revealed(self.password, what="password for Kafka")}
            made["kafka.sasl.mechanism"] = self.mechanism
            made["kafka.sasl.jaas.config"] = jaas(LOGIN_MODULES[self.mechanism], login)
        if self.with_tls and self.ca_file:
            made |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": self.ca_file}
        if self.with_tls and self.certificate_file and self.key_file:
            made |= {
                "kafka.ssl.keystore.type": "PEM",
                "kafka.ssl.keystore.key": _text_of(self.key_file),
                "kafka.ssl.keystore.certificate.chain": _text_of(self.certificate_file),
            }
            if self.key_password is not None:
                made["kafka.ssl.key.password"] = revealed(self.key_password, what="key_password for Kafka")
        return {name: value for name, value in made.items() if value is not None}

    def for_python(self) -> dict[str, Any]:
        """Arguments of kafka-python's clients, including the secrets."""
        self._prepare()
        made: dict[str, Any] = {"bootstrap_servers": list(self.servers), "security_protocol": self.protocol}
        if self.oauth is not None:
            made |= self.oauth.for_python()
        elif self.with_login:
            made |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": revealed(self.password, what="password for Kafka"),
            }
        if self.with_tls:
            password = self.key_password
            made |= {
                "ssl_cafile": self.ca_file,
                "ssl_certfile": self.certificate_file,
                "ssl_keyfile": self.key_file,
                "ssl_password": None if password is None else revealed(password, what="key_password for Kafka"),
            }
        return made

    def _prepare(self) -> None:
        """Keep secrets out of logs; ConfigurationError for a file that the clients could not use."""
        keep_quiet()
        for path in (self.ca_file, self.certificate_file, self.key_file) if self.with_tls else ():
            if path is not None:
                _text_of(path)


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"a file of the TLS settings cannot be read: {error.strerror}",
            remedy="correct its name or its permissions",
            file=path,
        ) from error
