"""Finds out why brokers refuse a login, before Kafka's clients retry until their timeout without giving the reason."""

from __future__ import annotations

import socket
import ssl
from datetime import timedelta
from typing import TYPE_CHECKING

from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.errors import SourceReadError

if TYPE_CHECKING:
    from kafka.net.connection import KafkaConnection

# A hanging broker is not detected here; later calls wait for it.
TRY = timedelta(seconds=5)

TRUST = "name the authority that signed it in ca_file, and the address that the certificate is made for"
LOGIN = "check username, password and mechanism, then start again: nothing was written"
AUDIENCE = "check scope and token_url, and the issuer and audience that the brokers expect, then start again"
SECURED = "use protocol='SASL_SSL', or 'SSL' if there are no passwords, with ca_file, then start again"
CERTIFICATE = "name a certificate that the brokers trust in certificate_file and key_file, then start again"

# The problem, and the remedy.
Refusal = tuple[str, str]


def check_login(cluster: KafkaCluster, *, patience: timedelta = TRY) -> None:
    """Connect and log in; SourceReadError, with the correction, if retrying cannot help.

    A broker that does not answer, or is just starting, is not an error here.
    """
    seconds = min(patience, TRY).total_seconds()
    # Tried twice: a broker that is shutting down ends logins too.
    refused = _refused(cluster, seconds) and _refused(cluster, seconds)
    if refused:
        what, remedy = refused
        raise SourceReadError(what, remedy=remedy, brokers=",".join(cluster.servers))


def _refused(cluster: KafkaCluster, seconds: float) -> Refusal | None:
    from kafka.errors import KafkaError, KafkaTimeoutError
    from kafka.net.manager import KafkaConnectionManager
    from kafka.net.selector import NetworkSelector

    network = NetworkSelector()
    manager = KafkaConnectionManager(network, **cluster.for_python())
    tried: list[KafkaConnection] = []

    async def enter() -> None:
        server = manager.cluster.bootstrap_brokers()[0]
        tried.append(manager.get_connection(server.node_id, timeout_ms=seconds * 1000, pop_on_close=False))
        await tried[0]

    try:
        network.run(enter)
    except (KafkaTimeoutError, TimeoutError):
        return None
    except (KafkaError, OSError) as error:
        answered = bool(tried) and tried[0].broker_version_data is not None
        return _explained(cluster, error, answered=answered, seconds=seconds)
    finally:
        manager.close()
        network.close()
    return None


def _explained(cluster: KafkaCluster, error: Exception, *, answered: bool, seconds: float) -> Refusal | None:
    """The reason and remedy; None if it may be temporary. `answered`: the broker sent data before the error."""
    reason = error.__context__
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"the certificate of the brokers is not trusted: {reason.verify_message}", TRUST
    if "ALERT" in str(error) and "CERTIFICATE" in str(error):
        return "the brokers do not trust the certificate of this client, or it has none", CERTIFICATE
    if cluster.with_login and answered:
        # kafka-python loses the broker's message if the connection is closed right after it.
        if cluster.oauth is not None:
            return f"Kafka refuses the token of {cluster.oauth.client_id!r} from {cluster.oauth.where}", AUDIENCE
        return f"Kafka refuses the login of {cluster.username!r} by {cluster.mechanism}", LOGIN
    if not cluster.with_tls and any(_speaks_tls(server, seconds) for server in cluster.servers):
        return f"the brokers use TLS, and the protocol is {cluster.protocol!r}", SECURED
    return None


def _speaks_tls(server: str, seconds: float) -> bool:
    host, _, port = server.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=seconds) as plain,
            context.wrap_socket(plain),
        ):
            return True
    except OSError:
        return False
