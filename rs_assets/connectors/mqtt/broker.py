"""The address of an MQTT broker, its login, and a client for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, get_args
from urllib.parse import urlsplit

from rs_assets.common.extras import check_extra
from rs_assets.common.node import NO_EFFECT, positive_time
from rs_assets.common.secrets import Deferred, Hidden, Secret, revealed, without_userinfo
from rs_assets.errors import ConfigurationError

if TYPE_CHECKING:
    from paho.mqtt.client import Client

MqttVersion = Literal["3.1.1", "5"]
# The schemes of an address: whether they encrypt, and their ports.
PLAIN, ENCRYPTED = ("mqtt", "tcp"), ("mqtts", "ssl")
PORTS: Final = {**dict.fromkeys(PLAIN, 1883), **dict.fromkeys(ENCRYPTED, 8883)}
# The largest keep-alive of the protocol, in seconds.
LONGEST_ALIVE_S: Final = 65_535
# A session that does not end, in seconds as the protocol counts them.
FOR_EVER_S: Final = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttBroker:
    """Where a broker is, and how to log in. Secrets are never shown, compared or stored.

    `ca` is the file of the authorities that signed the broker's certificate, else those of the system. `version` is
    that of the protocol. `session_expiry` is how long the broker keeps a session without a connection, with version 5;
    None: for ever.

    >>> MqttBroker(url="mqtts://broker.example").address
    ('broker.example', 8883)
    """

    url: str
    username: Secret | None = field(default=None, repr=False, compare=False, metadata=NO_EFFECT)
    password: Secret | None = field(default=None, repr=False, compare=False, metadata=NO_EFFECT)
    ca: str | None = field(default=None, metadata=NO_EFFECT)
    connect_timeout: timedelta = field(default=timedelta(seconds=10), metadata=NO_EFFECT)
    keep_alive: timedelta = field(default=timedelta(seconds=60), metadata=NO_EFFECT)
    version: MqttVersion = field(default="3.1.1", metadata=NO_EFFECT)
    session_expiry: timedelta | None = field(default=None, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Hide secrets given as text; ConfigurationError for a malformed address."""
        for name in ("username", "password"):
            secret = getattr(self, name)
            if isinstance(secret, str) and not isinstance(secret, Deferred):
                object.__setattr__(self, name, Hidden(secret))
        if isinstance(self.url, Deferred):
            object.__setattr__(self, "url", revealed(self.url, what="url of MQTT"))
        for holds, what, remedy in (
            (_is_address(self.url), f"{without_userinfo(str(self.url))!r} is not the address of an MQTT broker",
             "write it as 'mqtt://host:1883', or 'mqtts://host:8883' for TLS; the login is username= and password="),
            (self.password is None or self.username is not None, "a password needs a username", "pass username="),
            (self.ca is None or self.encrypted, "ca= is for TLS", "write the url as 'mqtts://host:8883'"),
            (positive_time(self.connect_timeout), "connect_timeout must be a positive time", "timedelta(seconds=10)"),
            (positive_time(self.keep_alive) and 1 <= self.keep_alive.total_seconds() <= LONGEST_ALIVE_S,
             "keep_alive must be a time of 1 s to 18 h", "timedelta(seconds=60)"),
            (self.version in get_args(MqttVersion), f"version must be one of 3.1.1, 5, not {self.version!r}",
             "version='5'"),
            (self.session_expiry is None or self.five, "a session that expires needs version 5 of the protocol",
             "version='5'"),
            (self.session_expiry is None
             or (positive_time(self.session_expiry) and 1 <= self.session_expiry.total_seconds() < FOR_EVER_S),
             "session_expiry must be a time of 1 s to 136 years", "timedelta(days=7)"),
        ):  # fmt: skip
            if not holds:
                raise ConfigurationError(what, remedy=remedy)

    @property
    def five(self) -> bool:
        """Whether it speaks version 5 of the protocol."""
        return self.version == "5"

    @property
    def encrypted(self) -> bool:
        """Whether the connection is encrypted."""
        return urlsplit(self.url).scheme in ENCRYPTED

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        return str(parts.hostname), parts.port or PORTS[parts.scheme]

    def client(self, client_id: str, *, clean_session: bool, manual_ack: bool = False) -> Client:
        """A client that is not connected; ConfigurationError if the extra or a secret is missing."""
        check_extra("mqtt", "MQTT")
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

        made = Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            # Version 5 says it with each connection.
            clean_session=None if self.five else clean_session,
            protocol=MQTTProtocolVersion.MQTTv5 if self.five else MQTTProtocolVersion.MQTTv311,
            manual_ack=manual_ack,
            reconnect_on_failure=False,
        )
        made.connect_timeout = self.connect_timeout.total_seconds()
        if self.username is not None:
            password = None if self.password is None else revealed(self.password, what="password of MQTT")
            made.username_pw_set(revealed(self.username, what="username of MQTT"), password)
        if self.encrypted:
            made.tls_set(ca_certs=self.ca)
        return made

    def connect(self, client: Client, *, clean_session: bool = True) -> None:
        """Open the connection; OSError."""
        host, port = self.address
        alive = int(self.keep_alive.total_seconds())
        if not self.five:
            client.connect(host, port, keepalive=alive)
            return
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        kept: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        kept.SessionExpiryInterval = 0 if clean_session else self.expiry_s
        client.connect(host, port, keepalive=alive, clean_start=clean_session, properties=kept)

    @property
    def expiry_s(self) -> int:
        """How long the broker is asked to keep a session without a connection, in seconds."""
        return FOR_EVER_S if self.session_expiry is None else int(self.session_expiry.total_seconds())


def _is_address(url: Any) -> bool:
    if not isinstance(url, str):
        return False
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    plain = not (parts.username or parts.password or parts.query or parts.fragment or parts.path.strip("/"))
    return parts.scheme in PORTS and bool(parts.hostname) and plain and port != 0
