"""IPv4 networks as conditions on the text of an address."""

from __future__ import annotations

import ipaddress
import re

from rs_assets.expressions.functions.literals import quote

# An address in four numbers, each at most 255 and without a leading zero.
OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
ADDRESS = rf"^{OCTET}([.]{OCTET}){{3}}$"


class NoNetworkError(ValueError):
    """A text that is not a network."""


def network_of(text: str) -> ipaddress.IPv4Network:
    """The network that a text means: an address, a network, or the first numbers of its addresses.

    >>> network_of("10."), network_of("192.168.0.0/16"), network_of("10.0.0.1")
    (IPv4Network('10.0.0.0/8'), IPv4Network('192.168.0.0/16'), IPv4Network('10.0.0.1/32'))
    """
    plain = text.strip()
    if re.fullmatch(r"(?:\d{1,3}\.){1,3}", plain):
        parts = plain.rstrip(".").split(".")
        plain = f"{'.'.join([*parts, *['0'] * (4 - len(parts))])}/{8 * len(parts)}"
    try:
        return ipaddress.IPv4Network(plain, strict=False)
    except ValueError:
        raise NoNetworkError(f"{text!r} is not a network") from None


def in_network(address: str, text: str) -> str:
    """The SQL of whether the text `address` is in the network; false if it is not an address."""
    network = network_of(text)
    octets, inside = divmod(network.prefixlen, 8)
    numbers = str(network.network_address).split(".")
    parts = [f"{address} rlike {quote(ADDRESS)}"]
    if octets:
        begin = ".".join(numbers[:octets]) + ("." if octets < 4 else "")
        parts.append(f"startswith({address}, {quote(begin)})" if octets < 4 else f"{address} = {quote(begin)}")
    if inside:
        low = int(numbers[octets])
        high = low + 2 ** (8 - inside) - 1
        parts.append(f"try_cast(split_part({address}, '.', {octets + 1}) as int) between {low} and {high}")
    return f"coalesce({' and '.join(parts)}, false)"
