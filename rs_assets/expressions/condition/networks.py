"""IP networks as conditions on the text of an address."""

from __future__ import annotations

import functools
import ipaddress
import re

from rs_assets.expressions.functions.literals import quote
from rs_assets.records.grok.expand import expanded

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# An address in four numbers, each at most 255 and without a leading zero.
OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
ADDRESS = rf"^{OCTET}([.]{OCTET}){{3}}$"


class NoNetworkError(ValueError):
    """A text that is not a network."""


def network_of(text: str) -> Network:
    """The network that a text means: an address, a network, or the first numbers of addresses of IPv4.

    >>> network_of("10."), network_of("192.168.0.0/16"), network_of("10.0.0.1")
    (IPv4Network('10.0.0.0/8'), IPv4Network('192.168.0.0/16'), IPv4Network('10.0.0.1/32'))
    >>> network_of("2001:db8::1/32")
    IPv6Network('2001:db8::/32')
    """
    plain = text.strip()
    if re.fullmatch(r"(?:\d{1,3}\.){1,3}", plain):
        parts = plain.rstrip(".").split(".")
        plain = f"{'.'.join([*parts, *['0'] * (4 - len(parts))])}/{8 * len(parts)}"
    try:
        # Python would read an address with a zone.
        return ipaddress.ip_network(plain.replace("%", " "), strict=False)
    except ValueError:
        raise NoNetworkError(f"{text!r} is not a network") from None


def inside(text: str, network: Network) -> bool:
    """Whether a text without blanks around it is an address of the network, by Python.

    >>> inside("2001:DB8::1", network_of("2001:db8::/32")), inside("10.0.0.1", network_of("::/0"))
    (True, False)
    """
    try:
        return "%" not in text and ipaddress.ip_address(text) in network
    except ValueError:
        return False


def in_network(address: str, text: str) -> str:
    """The SQL of whether the text `address` is in the network; false if it is not an address."""
    network = network_of(text)
    parts = _of_four(address, network) if network.version == 4 else _of_six(address, network)
    return f"coalesce({' and '.join(parts)}, false)"


def _of_four(address: str, network: Network) -> list[str]:
    octets, bits = divmod(network.prefixlen, 8)
    numbers = str(network.network_address).split(".")
    parts = [f"{address} rlike {quote(ADDRESS)}"]
    if octets:
        begin = ".".join(numbers[:octets]) + ("." if octets < 4 else "")
        parts.append(f"startswith({address}, {quote(begin)})" if octets < 4 else f"{address} = {quote(begin)}")
    if bits:
        low = int(numbers[octets])
        high = low + 2 ** (8 - bits) - 1
        parts.append(f"try_cast(split_part({address}, '.', {octets + 1}) as int) between {low} and {high}")
    return parts


def _of_six(address: str, network: Network) -> list[str]:
    digits, bits = divmod(network.prefixlen, 4)
    written = f"{int(network.network_address):032x}"
    parts = [f"{address} rlike {quote(_six())}"]
    if digits:
        parts.append(f"startswith({_digits(address)}, {quote(written[:digits])})")
    if bits:
        low = int(written[digits], 16)
        high = low + 2 ** (4 - bits) - 1
        parts.append(f"substring({_digits(address)}, {digits + 1}, 1) between '{low:x}' and '{high:x}'")
    return parts


def _digits(address: str) -> str:
    """The SQL of the 32 digits of an address of IPv6."""
    number = "try_cast(split_part(substring_index(a, ':', -1), '.', {}) as int)".format
    pairs = [f"lower(hex({number(at)} * 256 + {number(at + 1)}))" for at in (1, 3)]
    before = "left(a, length(a) - length(substring_index(a, ':', -1)))"
    plain = f"if(instr(a, '.') = 0, a, concat({before}, {pairs[0]}, ':', {pairs[1]}))"
    part = "if({0} = '', '', array_join(transform(split({0}, ':'), d -> lpad(d, 4, '0')), ''))".format
    head = part("substring_index(p, '::', 1)")
    last = part("substring_index(p, '::', -1)")
    tail = f"if(instr(p, '::') = 0, '', {last})"
    filled = f"concat({head}, repeat('0', 32 - length({head}) - length({tail})), {tail})"
    return f"get(transform(transform(array(lower({address})), a -> {plain}), p -> {filled}), 0)"


@functools.cache
def _six() -> str:
    """The expression of an address of IPv6 without a zone."""
    own = {"IPV4NUMBER": OCTET.strip("()"), "SIX": "%{IPV6WITHV4}|(?:%{IPV6PART}:){7}%{IPV6PART}|%{IPV6SHORT}"}
    return rf"\A{expanded('%{SIX:it}', own).pattern}\z"
