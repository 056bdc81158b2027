"""Encodings, hashes and URLs. Texts are bytes of UTF-8."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.function import Family
from rs_assets.expressions.functions.literals import is_null, quote, unquote

_row = Family("encoding").row
PARTS = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO")


# Java reads no host with an underscore, or with characters beyond ASCII, but has it in the authority.
_OF_AUTHORITY = {
    "HOST": r"^(?:[^@]*@)?([^:@\[\]]+)(?::[0-9]*)?$",
    "USERINFO": r"^([^@]*)@[^:@\[\]]+(?::[0-9]*)?$",
}


def part_of_url(url: str, part: str) -> str:
    """The SQL of a part of a URL; null without one, and for a text that cannot be read."""
    found = f"try_parse_url({url}, '{part}')"
    if part not in _OF_AUTHORITY:
        return found
    read = f"nullif(regexp_extract(try_parse_url({url}, 'AUTHORITY'), {quote(_OF_AUTHORITY[part])}, 1), '')"
    return f"coalesce({found}, {read})"


def _part(texts: Mapping[str, str]) -> str:
    part = (unquote(texts["part"]) or "").upper()
    if part not in PARTS:
        raise TopologyError(f"a URL has no part {part!r}", remedy=f"use one of: {', '.join(PARTS)}")
    if "key" not in texts:
        return part_of_url(texts["s"], part)
    if part != "QUERY" or is_null(texts["key"]):
        return "cast(null as string)"
    # Spark reads the key as a pattern.
    return f"try_parse_url({texts['s']}, 'QUERY', {quote(re.escape(unquote(texts['key']) or ''))})"


def _class(literal: str) -> str:
    """The characters of a separator as a character class; white space if there is no separator."""
    signs = unquote(literal)
    if not signs:
        return r"\s"
    return "".join(sign if sign.isalnum() else f"\\{sign}" for sign in signs)


def _of_key(texts: Mapping[str, str]) -> str:
    if is_null(texts["key"]):
        return "cast(null as string)"
    ends, equals = _class(texts["sep"]), _class(texts["equals"])
    pattern = quote(rf"(?:^|[{ends}])\Q{unquote(texts['key'])}\E[{equals}]+([^{ends}]*)")
    return f"case when {texts['s']} rlike {pattern} then regexp_extract({texts['s']}, {pattern}, 1) end"


_URL = "'http://facebook.com/path/p1.php?query=1'"

ENCODING = (
    _row(
        "md5",
        "s text",
        "md5({s})",
        "string",
        "The MD5 digest in base 16.",
        {"md5('k1=v1;k2=v2')": "19c17f42b4d6a90f7f9ffc2ea9bdd775", "md5(null)": None},
    ),
    _row(
        "sha1 sha",
        "s text",
        "sha1({s})",
        "string",
        "The SHA-1 digest in base 16.",
        {"sha1('abc')": "a9993e364706816aba3e25717850c26c9cd0d89d"},
    ),
    _row(
        "sha224",
        "s text",
        "sha2({s}, 224)",
        "string",
        "The SHA-224 digest in base 16.",
        {"sha224('abc')": "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"},
    ),
    _row(
        "sha256",
        "s text",
        "sha2({s}, 256)",
        "string",
        "The SHA-256 digest in base 16.",
        {"sha256('abc')": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    ),
    _row(
        "sha384",
        "s text",
        "sha2({s}, 384)",
        "string",
        "The SHA-384 digest in base 16.",
        {"substring(sha384('abc'),1,16)": "cb00753f45a35e8b"},
    ),
    _row(
        "sha512",
        "s text",
        "sha2({s}, 512)",
        "string",
        "The SHA-512 digest in base 16.",
        {"substring(sha512('abc'),1,16)": "ddaf35a193617aba"},
    ),
    _row("crc32", "s text", "crc32({s})", "bigint", "The CRC-32 checksum.", {"crc32('abc')": 891568578}),
    _row(
        "xxhash64",
        "s text",
        "xxhash64({s})",
        "bigint",
        "Spark's 64-bit hash (xxHash64).",
        {"xxhash64('a')": -8582455328737087284},
    ),
    _row(
        "hash_code hashcode",
        "s text",
        "if({s} is null, null, abs(cast(reflect('java.util.Objects', 'hashCode', {s}) as bigint)))",
        "bigint",
        "Java's hash of a text, without its sign.",
        {"hash_code('k1=v1;k2=v2')": 1099348823, "hash_code('k1:v1,k2:v2')": 401392878, "hash_code(null)": None},
    ),
    _row(
        "tobase64 base64 encode64",
        "s text",
        r"replace(base64({s}), '\r\n', '')",
        "string",
        "The bytes in base 64.",
        {"tobase64('hello')": "aGVsbG8="},
    ),
    _row(
        "frombase64 unbase64 decode64",
        "s text",
        "make_valid_utf8(cast(try_to_binary({s}, 'base64') as string))",
        "string",
        "The text of bytes in base 64; bytes that are not UTF-8 become U+FFFD.",
        {"frombase64('aGVsbG8=')": "hello", "frombase64('%')": None, "encode16(frombase64('Yf8='))": "61efbfbd"},
    ),
    _row(
        "encode16 hexText", "s text", "lower(hex({s}))", "string", "The bytes in base 16.", {"encode16('ab')": "6162"}
    ),
    _row(
        "unhex decode16",
        "s text",
        "make_valid_utf8(cast(unhex({s}) as string))",
        "string",
        "The text of bytes in base 16; bytes that are not UTF-8 become U+FFFD.",
        {"unhex('6162')": "ab", "unhex('xy')": None, "encode16(unhex('61ff'))": "61efbfbd"},
    ),
    _row(
        "urlencode url_encode",
        "s text",
        "url_encode({s})",
        "string",
        "The text encoded for a URL.",
        {"urlencode('a b&c')": "a+b%26c"},
    ),
    _row(
        "urldecode url_decode",
        "s text",
        "try_url_decode({s})",
        "string",
        "The decoded text of a part of a URL.",
        {"urldecode('a+b%26c')": "a b&c", "urldecode('%zz')": None},
    ),
    _row(
        "parse_url url",
        "s text, part word",
        _part,
        "string",
        "A part of a URL: HOST, PATH, QUERY, REF, PROTOCOL, FILE, AUTHORITY, USERINFO.",
        {
            f"parse_url({_URL},'QUERY')": "query=1",
            f"parse_url({_URL},'HOST')": "facebook.com",
            f"parse_url({_URL},'PATH')": "/path/p1.php",
            f"parse_url({_URL},'REF')": None,
            f"parse_url({_URL},'PROTOCOL')": "http",
            f"parse_url({_URL},'FILE')": "/path/p1.php?query=1",
            f"parse_url({_URL},'AUTHORITY')": "facebook.com",
            f"parse_url({_URL},'USERINFO')": None,
            "parse_url('http://my_shop:80/p','HOST')": "my_shop",
            "parse_url('http://u:p@my_shop/p','USERINFO')": "u:p",
            "parse_url('a b|c','HOST')": None,
        },
    ),
    _row(
        "parse_url url",
        "s text, part word, key word",
        _part,
        "string",
        "The value of a key in the query of a URL.",
        {f"parse_url({_URL},'QUERY','query')": "1", f"parse_url({_URL},'QUERY','(')": None},
    ),
    _row(
        "keyvalue kv",
        "s text, sep word, equals word, key word",
        _of_key,
        "string",
        "The value of a key in a text of pairs; each character of `sep` and `equals` separates, null is white space.",
        {
            "keyvalue('k1=v1;k2=v2',';','=','k2')": "v2",
            "keyvalue('k1=v1 k2=v2',null,'=','k2')": "v2",
            "keyvalue('k1:v1abck2:v2','abc',':','k2')": "v2",
            "keyvalue('k1:v1;k2=v2',';',':=','k2')": "v2",
            "keyvalue('k1=v1',';','=','k3')": None,
            "keyvalue(null,';','=','k3')": None,
        },
    ),
)
