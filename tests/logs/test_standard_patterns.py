"""The standard patterns of grok: what each matches, by Python's expressions of them."""

from __future__ import annotations

import ipaddress
import random
import re

import pytest

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.builtin.grok import matcher
from rs_assets.expressions.functions.patterns import fault_of
from rs_assets.expressions.functions.registry import function_named
from rs_assets.records.grok.expand import expanded, is_grok, standard, with_named_groups

# A pattern, a text that it matches as a whole, and one that it does not.
TEXTS = [
    ("USERNAME", "a.b_c-1", "a b"),
    ("EMAILADDRESS", "ann+x@mail.example.org", "ann@"),
    ("INT", "-12", "1.5"),
    ("NUMBER", "-1.5", "1."),
    ("BASE16NUM", "0xFf", "0xg"),
    ("BASE16FLOAT", "0x1.8", "x1.8"),
    ("POSINT", "10", "01"),
    ("NONNEGINT", "01", "-1"),
    ("WORD", "a_1", "a-1"),
    ("NOTSPACE", "a-1", "a 1"),
    ("QUOTEDSTRING", r'"a \" b"', '"a" b'),
    ("QUOTEDSTRING", "''", '"a'),
    ("UUID", "123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456"),
    ("URN", "urn:isbn:0451450523", "urn:-:1"),
    ("MAC", "00:1B:44:11:3A:B7", "00:1B:44:11:3A"),
    ("MAC", "001b.4411.3ab7", "001b.4411"),
    ("HOSTNAME", "a-1.example.org", "-a"),
    ("HOSTPORT", "10.0.0.1:80", "10.0.0.1:0"),
    ("UNIXPATH", "/var/log/a", "var"),
    ("WINPATH", r"C:\a\b.txt", r"C:\a?"),
    ("TTY", "/dev/pts/1", "/dev/pts"),
    ("URI", "https://u:p@h.example/a/b?c=d&e=[1]", "https:/a"),
    ("MONTH", "Sep", "Se"),
    ("MONTH", "Dezember", "Dezembre"),
    ("MONTHNUM", "12", "13"),
    ("MONTHDAY", "31", "32"),
    ("DAY", "Wednesday", "Wed."),
    ("TIME", "23:59:60.123", "24:00:00"),
    ("DATE_US", "12/31/2026", "31/12/2026"),
    ("DATE_EU", "31.12.2026", "2026.12.31"),
    ("TIMESTAMP_ISO8601", "2026-01-05T12:00:00.5+01:00", "2026-1"),
    ("TIMESTAMP_ISO8601", "2026-01-05 12:00Z", "2026-01-05"),
    ("DATESTAMP_RFC2822", "Mon, 05 Jan 2026 12:00:00 +0100", "05 Jan 2026"),
    ("DATESTAMP_EVENTLOG", "20260105120000", "2026010512"),
    ("HTTPDATE", "10/Oct/2000:13:55:36 -0700", "10/10/2000:13:55:36 -0700"),
    ("LOGLEVEL", "WARNING", "wArn"),
    ("SYSLOGTIMESTAMP", "Jan  5 12:00:00", "5 Jan 12:00:00"),
    ("JAVACLASS", "org.example.Main$1", "org..Main"),
]
# A pattern, a line, and its fields.
LINES = [
    (
        "COMBINEDAPACHELOG",
        '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif?x=1 HTTP/1.0" 200 2326 "http://e.org/" "Moz \\"4"',
        {"clientip": "127.0.0.1", "ident": "-", "auth": "frank", "timestamp": "10/Oct/2000:13:55:36 -0700"}
        | {"verb": "GET", "request": "/a.gif?x=1", "httpversion": "1.0", "response": "200", "bytes": "2326"}
        | {"referrer": '"http://e.org/"', "agent": '"Moz \\"4"'},
    ),
    (
        "COMMONAPACHELOG",
        r'::1 - - [10/Oct/2000:13:55:36 -0700] "\x16\x03 no" 400 -',
        {"clientip": "::1", "ident": "-", "auth": "-", "timestamp": "10/Oct/2000:13:55:36 -0700"}
        | {"rawrequest": r"\x16\x03 no", "response": "400"},
    ),
    (
        "HTTPD24_ERRORLOG",
        "[Mon Jan 05 12:00:00.5 2026] [core:error] [pid 7:tid 8] [client 10.0.0.1:99] AH00126: Invalid URI",
        {"timestamp": "Mon Jan 05 12:00:00.5 2026", "module": "core", "loglevel": "error", "pid": "7", "tid": "8"}
        | {"clientip": "10.0.0.1", "clientport": "99", "errorcode": "AH00126", "message": "Invalid URI"},
    ),
    (
        "SYSLOGLINE",
        "Jan  5 12:00:00 web-1 sshd[42]: Failed password for root",
        {"timestamp": "Jan  5 12:00:00", "logsource": "web-1", "program": "sshd", "pid": "42"}
        | {"message": "Failed password for root"},
    ),
    (
        "SYSLOG5424LINE",
        '<34>1 2026-01-05T12:00:00Z web.example.org su - ID47 [a b="c"][d e="f"] denied',
        {"syslog5424_pri": "34", "syslog5424_ver": "1", "syslog5424_ts": "2026-01-05T12:00:00Z"}
        | {"syslog5424_host": "web.example.org", "syslog5424_app": "su", "syslog5424_msgid": "ID47"}
        | {"syslog5424_sd": '[a b="c"][d e="f"]', "syslog5424_msg": "denied"},
    ),
    (
        "CRONLOG",
        "Jan  5 12:00:00 h CRON[1]: (root) CMD (run x)",
        {"timestamp": "Jan  5 12:00:00", "logsource": "h", "program": "CRON", "pid": "1", "user": "root"}
        | {"action": "CMD", "message": "run x"},
    ),
    (
        "TOMCATLOG",
        "2026-01-05 12:00:00,5 +0100 | ERROR | org.a.B - boom",
        {"timestamp": "2026-01-05 12:00:00,5 +0100", "level": "ERROR", "class": "org.a.B", "logmessage": "boom"},
    ),
    (
        "JAVASTACKTRACEPART",
        "  at org.A.<init>(A.java:12)",
        {"class": "org.A", "method": "<init>", "file": "A.java", "line": "12"},
    ),
    (
        "SQUID3",
        "1525344856.899  16867 10.170.72.111 TCP_TUNNEL/200 6256 CONNECT e.com:443 - HIER_DIRECT/10.0.0.2 -",
        {"timestamp": "1525344856.899", "duration": "16867", "client_address": "10.170.72.111"}
        | {"cache_result": "TCP_TUNNEL", "status_code": "200", "bytes": "6256", "request_method": "CONNECT"}
        | {"url": "e.com:443", "hierarchy_code": "HIER_DIRECT", "server": "10.0.0.2", "content_type": "-"},
    ),
]


def fields_of(pattern, text):
    """The fields of a line, by Python's expression."""
    found = re.fullmatch(with_named_groups(pattern), text, re.ASCII)
    return found and {name: value for name, value in found.groupdict().items() if value}


@pytest.mark.parametrize(("name", "good", "bad"), TEXTS)
def test_standard_pattern_a_text_of_its_kind_is_matched(name, good, bad):
    assert fields_of(f"%{{{name}:it}}", good) == {"it": good}
    assert fields_of(f"%{{{name}:it}}", bad) is None


@pytest.mark.parametrize(("name", "line", "wanted"), LINES)
def test_standard_pattern_a_line_of_its_kind_gives_its_fields(name, line, wanted):
    assert fields_of(f"%{{{name}}}", line) == wanted


def test_standard_patterns_each_is_valid_in_java_and_has_only_named_groups():
    for name in standard():
        made = expanded(f"%{{{name}:of_it}}")
        assert fault_of(made.pattern) is None, name
        # Python counts the groups: all have names.
        compiled = re.compile(re.sub(r"\(\?<(g\d+)>", r"(?P<\1>", made.pattern))
        assert compiled.groups == sum(len(each.groups) for each in made.fields), name


def test_addresses_of_ipv6_are_those_of_python():
    drawn = random.Random(5)
    ip = re.compile(with_named_groups("%{IPV6:it}"))
    for _ in range(3000):
        number = drawn.getrandbits(128) & drawn.choice([~0, ~(0xFFFFFFFF << 32), 0xFFFF << 112 | 0xFFFF, 0xFFFFFFFF])
        address = ipaddress.IPv6Address(number)
        written = drawn.choice([str(address), address.exploded, f"::ffff:{ipaddress.IPv4Address(number % 2**32)}"])
        assert ip.search(f"from {written} on")["it"] == written
        broken = written.replace(":", drawn.choice([":", "::", ":::", ""]), drawn.choice([1, 2]))
        try:
            good = bool(ipaddress.IPv6Address(broken))
        except ValueError:
            good = False
        assert bool(ip.fullmatch(broken)) == good, broken


# A pattern that is refused, words of the fault and of its remedy, and what the remedy says to write.
WRONG = [
    ("%{WROD:a}", "no grok pattern 'WROD'", "%{WORD}", "%{WORD:a}"),
    ("%{ZZZZZZ:a}", "no grok pattern 'ZZZZZZ'", "docs/logs.md", "%{WORD:a}"),
    ("%{WORD}", "has no field", "%{IP:client}", "%{IP:client}"),
    ("%{WORD:[a][b]}", "not the name of a field", "digits and _: a_b", "%{WORD:a_b}"),
    ("%{WORD:}", "not the name of a field", "digits and _: field", "%{WORD:field}"),
    ("%{WORD:a:date}", "unknown type 'date'", "use one of: int, ", "%{WORD:a:int}"),
    ("%{WORD:a:int} %{WORD:a}", "has two types", "at both places", "%{WORD:a:int} %{WORD:a:int}"),
    ("%{WORD:a} %{WORD:A}", "differ by case only", "another name", "%{WORD:a} %{WORD:b}"),
    (r"(?<a>['\"]).*\1", "a group by its number", r"(?<sign>['\"]).*\k<sign>", r"(?<sign>['\"]).*\k<sign>"),
    ("%{WORD:a} (", "is wrong: '(' is not closed", "%{IP:client} %{WORD:verb}", "%{IP:client} %{WORD:verb}"),
    ("%{WORD:a}" + "x" * 60_000, "longer than", "split it", "%{WORD:a}" + "x" * 30_000),
]


@pytest.mark.parametrize(("pattern", "said", "remedy", "right"), WRONG, ids=lambda value: value[:20])
def test_grok_a_wrong_pattern_is_refused_with_a_remedy_that_works(pattern, said, remedy, right):
    with pytest.raises(TopologyError) as refused:
        matcher(pattern)
    assert said in str(refused.value)
    assert remedy in refused.value.remedy
    assert matcher(right).fields


def test_grok_a_field_that_is_unknown_is_refused_with_the_known_ones():
    with pytest.raises(TopologyError, match="no field 'c'") as refused:
        function_named("grok", 3).sql("line", "'%{INT:a} %{INT:b}'", "'c'")
    assert refused.value.remedy == "its fields are: a, b"
    assert function_named("grok", 3).sql("line", "'%{INT:a} %{INT:b}'", "'b'")
    with pytest.raises(TopologyError, match="pattern is null") as refused:
        function_named("grok", 2).sql("line", "null")
    assert "%{IP:client}" in refused.value.remedy
    assert function_named("grok", 2).type_of("line", "'%{IP:client}'") == "struct<`client`:string>"


def test_grok_is_known_by_a_named_pattern():
    assert is_grok("%{WORD:a}")
    assert not is_grok("(?P<a>b%{2})")


def test_grok_patterns_that_use_themselves_are_refused():
    with pytest.raises(TopologyError, match="uses itself"):
        matcher("%{A:a}", {"A": "x%{B}", "B": "%{A}?"})
    assert matcher("%{LEVEL:level}", {"LEVEL": "[A-Z]+"}).pattern == "(?<g1>[A-Z]+)"


def test_grok_a_source_pattern_cannot_have_a_field_twice():
    with pytest.raises(TopologyError, match="two groups for 'a'") as refused:
        with_named_groups("%{INT:a}|%{WORD:a}")
    assert "script(" in refused.value.remedy
