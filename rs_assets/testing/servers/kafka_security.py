"""Credentials for a test broker: users, certificates of its own authority, and an authorizer.

Only the listener for clients is secured. The broker talks to itself in plain text on loopback, as a user who may do
everything.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, get_args

from rs_assets.connectors.kafka.client.cluster import LOGIN_MODULES, KafkaCluster, Protocols
from rs_assets.connectors.kafka.client.jaas import quoted
from rs_assets.errors import ConfigurationError

# The user that makes topics and rules; no rule binds it.
SUPERUSER = "admin"
# A login needs SASL, a name needs a client's certificate; all others, and the broker itself, are this user.
NOBODY = "ANONYMOUS"

_LISTENER = "CLIENTS"
_OWN = f"listener.name.{_LISTENER.lower()}"
_SCRAM = tuple(mechanism for mechanism in LOGIN_MODULES if mechanism.startswith("SCRAM"))

# The purpose of a certificate, as openssl takes it.
_AUTHORITY = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n"
_LEAF = "subjectAltName=DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n"
_DAYS = "7"
_OPENSSL_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files of an authority and the certificates signed by it for `localhost`: the broker's and a client's."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Self:
        """Make them in `folder` with the command openssl; existing files stay. ConfigurationError if that fails."""
        made = cls(folder)
        if not made.client.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            _sign(made.authority, _AUTHORITY, by=None)
            _sign(made.broker, _LEAF, by=made.authority)
            _sign(made.client, _LEAF, by=made.authority)
        return made

    @property
    def authority(self) -> Path:
        """The certificate that clients and the broker trust: `ca_file` of a cluster."""
        return self.folder / "authority.pem"

    @property
    def broker(self) -> Path:
        """The certificate of the broker."""
        return self.folder / "broker.pem"

    @property
    def client(self) -> Path:
        """The certificate of a client: `certificate_file` of a cluster."""
        return self.folder / "client.pem"

    @property
    def client_key(self) -> Path:
        """The key of the client's certificate: `key_file` of a cluster."""
        return _key_of(self.client)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSecurity:
    """The access of clients to a broker: the protocol, the users, and whether they must show a certificate.

    `users` are passwords by name, besides the superuser; all of them log in by PLAIN and by SCRAM. Without a rule
    everything is allowed; `KafkaBroker.deny` makes rules. In a folder that is used again, SCRAM knows the users of the
    first broker there.

    >>> BrokerSecurity(protocol="SASL_SSL", users={"shop": "secret"})
    BrokerSecurity(protocol='SASL_SSL', client_certificates=False)
    """

    protocol: Protocols = "SASL_SSL"
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    client_certificates: bool = False
    password: str = field(default_factory=secrets.token_urlsafe, repr=False)

    def __post_init__(self) -> None:
        """Refuse protocols without security."""
        if self.protocol not in get_args(Protocols) or self.protocol == "PLAINTEXT":
            raise ConfigurationError(
                f"{self.protocol!r} does not secure a broker", remedy="use SASL_SSL, SASL_PLAINTEXT or SSL"
            )

    def cluster(self, address: str, folder: Path) -> KafkaCluster:
        """The superuser's access to the broker over `folder`; others by `dataclasses.replace`."""
        made, login = certificates(folder), self.protocol.startswith("SASL_")
        tls, shown = self.protocol.endswith("SSL"), self.client_certificates
        return KafkaCluster(
            bootstrap_servers=address,
            protocol=self.protocol,
            username=SUPERUSER if login else None,
            password=self.password if login else None,
            ca_file=str(made.authority) if tls else None,
            certificate_file=str(made.client) if shown else None,
            key_file=str(made.client_key) if shown else None,
        )

    def settings(self, folder: Path, ports: tuple[int, int, int]) -> dict[str, str]:
        """The broker's settings; makes the certificates."""
        listeners = {_LISTENER: ports[0], "PLAINTEXT": ports[2]}
        addresses = ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items())
        return {
            "listeners": f"{addresses},CONTROLLER://127.0.0.1:{ports[1]}",
            "advertised.listeners": addresses,
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,{_LISTENER}:{self.protocol}",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{SUPERUSER};User:{NOBODY}",
            "allow.everyone.if.no.acl.found": "true",
            **(self._login() if self.protocol.startswith("SASL_") else {}),
            **(self._tls(folder) if self.protocol.endswith("SSL") else {}),
        }

    def format_options(self) -> tuple[str, ...]:
        """The options of the storage formatter, which sets up the users of SCRAM."""
        if not self.protocol.startswith("SASL_"):
            return ()
        told = [f"{m}=[name={name},password={word}]" for m in _SCRAM for name, word in self._everybody().items()]
        return tuple(part for user in told for part in ("--add-scram", user))

    def _everybody(self) -> dict[str, str]:
        return {**self.users, SUPERUSER: self.password}

    def _login(self) -> dict[str, str]:
        plain = " ".join(f"user_{name}={quoted(word)}" for name, word in self._everybody().items())
        users = {"PLAIN": f" {plain}"}
        return {
            f"{_OWN}.sasl.enabled.mechanisms": ",".join(LOGIN_MODULES),
            **{
                f"{_OWN}.{mechanism.lower()}.sasl.jaas.config": f"{module} required{users.get(mechanism, '')};"
                for mechanism, module in LOGIN_MODULES.items()
            },
        }

    def _tls(self, folder: Path) -> dict[str, str]:
        made = Certificates.make(certificates(folder).folder)
        shown = made.folder / "shown.pem"
        shown.write_text(_key_of(made.broker).read_text() + made.broker.read_text())
        return {
            f"{_OWN}.ssl.keystore.type": "PEM",
            f"{_OWN}.ssl.keystore.location": str(shown),
            f"{_OWN}.ssl.truststore.type": "PEM",
            f"{_OWN}.ssl.truststore.location": str(made.authority),
            f"{_OWN}.ssl.client.auth": "required" if self.client_certificates else "none",
        }


def certificates(folder: Path) -> Certificates:
    """The certificates of the broker over `folder`."""
    return Certificates(folder / "tls")


def _key_of(certificate: Path) -> Path:
    return certificate.with_suffix(".key")


def _sign(certificate: Path, purpose: str, *, by: Path | None) -> None:
    """Make a key, and a certificate signed by the authority `by`, or self-signed without one."""
    request, extensions = certificate.with_suffix(".csr"), certificate.with_suffix(".ext")
    extensions.write_text(purpose)
    key = str(_key_of(certificate))
    signer = ("-signkey", key) if by is None else ("-CA", str(by), "-CAkey", str(_key_of(by)), "-CAcreateserial")
    subject = ("-subj", f"/CN=rs-assets {certificate.stem}")
    _openssl("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", str(request), *subject)
    target = ("-extfile", str(extensions), "-out", str(certificate))
    _openssl("x509", "-req", "-sha256", "-days", _DAYS, "-in", str(request), *signer, *target)


def _openssl(*arguments: str) -> None:
    command = shutil.which("openssl")
    if command is None:
        raise ConfigurationError("the command openssl is missing", remedy="install it: it makes the test certificates")
    run = subprocess.run([command, *arguments], capture_output=True, text=True, check=False, timeout=_OPENSSL_TIMEOUT_S)
    if run.returncode:
        raise ConfigurationError(f"openssl {arguments[0]} failed: {run.stderr[-300:]}", remedy="check the message")
