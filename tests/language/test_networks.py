"""Networks of IPv6 in conditions and rules, on real Spark, against Python."""

from __future__ import annotations

import ipaddress
import random

from rs_assets import Rules
from rs_assets.expressions.condition.bind import condition_sql
from rs_assets.expressions.condition.networks import in_network, inside, network_of

DRAWN = random.Random(7)


def number() -> int:
    """A number of 128 bits, often with many zeros."""
    return DRAWN.getrandbits(128) & DRAWN.choice([-1, ~(0xFFFFFFFF << 48), 0xFFFF << 112 | 0xFFFF, 0xFF << 120 | 7])


def written(value: int) -> str:
    """One of the ways to write an address."""
    address = ipaddress.IPv6Address(value)
    four = f"{address.exploded[:30]}{ipaddress.IPv4Address(value % 2**32)}"
    return DRAWN.choice([str(address), address.exploded, str(address).upper(), four])


NETWORKS = [str(ipaddress.IPv6Network((number(), DRAWN.randrange(129)), strict=False)) for _ in range(40)]
NETWORKS += ["::/0", "::1", "2001:db8::/32", "fe80::/10", "::ffff:0:0/96", "10.0.0.0/8"]
ADDRESSES = [written(number()) for _ in range(100)]
for each in map(network_of, NETWORKS):
    if each.version == 6:
        first, last = int(each.network_address), int(each.broadcast_address)
        near = [first, last, min(last + 1, 2**128 - 1), max(first - 1, 0), DRAWN.randint(first, last)]
        ADDRESSES += map(written, near)
ADDRESSES += ["", " ", "::", "::1%eth0", ":::", "1::2::3", "::ffff:10.0.0.1", "::ffff:10.0.0.01", "10.0.0.1", "::1\n"]
ADDRESSES += ["1:2:3:4:5:6:7::", "1:2:3:4:5:6:7", "g::", "::12345", "1:2:3:4::5:6:7:8", "::1.2.3", "x" * 5000]


def test_ip_contains_of_ipv6_is_that_of_python(spark):
    rows = [(text,) for text in [*ADDRESSES, None]]
    parts = [f"{in_network('ip', text)} as n{at}" for at, text in enumerate(NETWORKS)]
    found = spark.createDataFrame(rows, "ip string").selectExpr(*parts).collect()
    for (text,), row in zip(rows, found, strict=True):
        wanted = [text is not None and inside(text, network_of(each)) for each in NETWORKS]
        assert list(row) == wanted, text


def test_ip_contains_of_rules_is_that_of_conditions(source, drive):
    few = ["::/0", "2001:db8::/33", "fe80::/10", "10.0.0.0/8"]
    rules = Rules.of({text: f"(ip,ipContains,'{text}')" for text in few})
    rows = [
        {"ip": f" {text} "} for text in ["2001:db8:7fff::1", "2001:DB8:8000::", "febf::", "10.1.1.1", "::1%a", "no"]
    ]
    judged = drive(source("ip string").match(rules, form="all"), rows)
    wanted = [[text for text in few if inside(row["ip"].strip(), network_of(text))] for row in rows]
    assert [sorted(row["rules"]) for row in judged] == [sorted(each) for each in wanted]
    assert wanted[0] == ["::/0", "2001:db8::/33"]
    assert "rlike" in condition_sql("(ip,ipContains,'fe80::/10')", {"ip": "string"}, step="x")


def test_ip_contains_of_an_address_of_ipv4_that_is_written_as_ipv6_is_that_of_ipv6(spark):
    """As Python's ipaddress has it, and Postgres: `'::ffff:1.2.3.4'::inet << '1.2.3.0/24'` is false."""
    networks = ["1.2.3.0/24", "::ffff:1.2.3.0/120", "::ffff:0:0/96", "::/0"]
    wanted = {
        "::ffff:1.2.3.4": [False, True, True, True],
        "::FFFF:102:304": [False, True, True, True],
        "0:0:0:0:0:ffff:1.2.3.4": [False, True, True, True],
        "1.2.3.4": [True, False, False, False],
    }
    parts = [f"{in_network('ip', text)} as n{at}" for at, text in enumerate(networks)]
    found = spark.createDataFrame([(text,) for text in wanted], "ip string").selectExpr(*parts).collect()
    assert [list(row) for row in found] == list(wanted.values())
    assert [[inside(text, network_of(each)) for each in networks] for text in wanted] == list(wanted.values())
    python = [[ipaddress.ip_address(text) in ipaddress.ip_network(each) for each in networks] for text in wanted]
    assert python == list(wanted.values())
