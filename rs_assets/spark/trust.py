"""The machine's certificate authorities as a key store, for a Java that does not know them.

A Java installed on the machine trusts the machine's authorities. A Java from PyPI trusts only those it was built with,
so connections through a company's own authority fail. Java reads no PEM files: this writes a key store (JKS).
"""

from __future__ import annotations

import hashlib
import os
import ssl
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

# The variables that curl, requests and pip read, the most specific first.
_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")

# Debian and Alpine; Fedora and related; macOS.
_USUAL = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")

_MAGIC, _VERSION, _TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2

# Java's own default. It protects no secret: authorities are public.
_PASSWORD = "changeit"  # noqa: S105


def ca_bundle(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The PEM file of the authorities that this machine trusts, or None if there is none in a known place.

    >>> ca_bundle({"SSL_CERT_FILE": __file__}) == Path(__file__)
    True
    """
    named = [environment.get(variable) for variable in _VARIABLES]
    places = [*named, ssl.get_default_verify_paths().cafile, *_USUAL]
    return next((Path(place) for place in places if place and Path(place).is_file()), None)


def key_store(certificates: Iterable[bytes]) -> bytes:
    """A Java key store (JKS) that trusts `certificates` (DER).

    >>> key_store([]).hex()[:24]
    'feedfeed0000000200000000'
    """
    entries = [
        struct.pack(">I", _TRUSTED_CERTIFICATE)
        + _text(f"ca{number}")
        + struct.pack(">Q", 0)
        + _text("X.509")
        + _sized(der)
        for number, der in enumerate(certificates)
    ]
    content = struct.pack(">III", _MAGIC, _VERSION, len(entries)) + b"".join(entries)
    digest = hashlib.sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + content, usedforsecurity=False)
    return content + digest.digest()


def write_key_store(bundle: Path, target: Path) -> None:
    """Write the authorities of the PEM file `bundle` to `target` as a Java key store."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(bundle)
    target.write_bytes(key_store(context.get_ca_certs(binary_form=True)))


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">H", len(data)) + data


def _sized(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data
