"""Whole numbers as bits and as digits of other bases. The width is 32 bits unless stated otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.function import Family

_row = Family("bits").row


def _converted(texts: Mapping[str, str]) -> str:
    """Null for a text that is not digits, or has so many that Spark could raise."""
    base, to = int(texts["base"]), int(texts["to"])
    if not (2 <= base <= 36 and 2 <= to <= 36):
        raise TopologyError("a base must be between 2 and 36", remedy="write conv(a,16,10)")
    most = next(count for count in range(64, 0, -1) if base**count <= 2**64)
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"[:base]
    text = f"lower(trim({texts['s']}))"
    number = f"ltrim('+-', {text})"
    sign = f"if(startswith({text}, '-'), '-', '')"
    whole = rf"{text} rlike '\\A[+-]?[{digits}]{{1,{most}}}\\z'"
    return f"if({whole}, concat({sign}, lower(conv({number}, {base}, {to}))), null)"


_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"


def _address_as_number(texts: Mapping[str, str]) -> str:
    text = f"trim({texts['s']})"
    parts = [f"cast(split_part({text}, '.', {place + 1}) as bigint) * {256 ** (3 - place)}" for place in range(4)]
    return rf"case when {text} rlike '\\A{_OCTET}([.]{_OCTET}){{3}}\\z' then {' + '.join(parts)} end"


def _number_as_address(texts: Mapping[str, str]) -> str:
    number = texts["n"]
    parts = [f"cast(shiftright({number}, {by}) & 255 as string)" for by in (24, 16, 8, 0)]
    return f"if({number} between 0 and {2**32 - 1}, concat_ws('.', {', '.join(parts)}), null)"


BITS = (
    _row("bitand bit_and", "a int, b int", "({a} & {b})", "int", "The bits set in both.", {"bitand(12,10)": 8}),
    _row("bitor bit_or", "a int, b int", "({a} | {b})", "int", "The bits set in either.", {"bitor(12,10)": 14}),
    _row("bitxor bit_xor", "a int, b int", "({a} ^ {b})", "int", "The bits set in exactly one.", {"bitxor(12,10)": 6}),
    _row("bitnot bit_not", "a int", "(~{a})", "int", "The inverted bits.", {"bitnot(0)": -1}),
    _row("bitcount bit_count", "n long", "bit_count({n})", "int", "How many bits of 64 are set.", {"bitcount(255)": 8}),
    _row(
        "bit_get getbit",
        "n long, place int",
        "if({place} between 0 and 63, getbit({n}, {place}), null)",
        "tinyint",
        "The bit at a position, counted from 0 at the right.",
        {"bit_get(5,2)": 1, "bit_get(5,64)": None},
    ),
    _row(
        "shiftleft shift_left",
        "n int, by int",
        "shiftleft({n}, {by})",
        "int",
        "Bits moved to the left.",
        {"shiftleft(1,4)": 16},
    ),
    _row(
        "shiftright shift_right",
        "n int, by int",
        "shiftright({n}, {by})",
        "int",
        "Bits moved to the right, with the sign.",
        {"shiftright(-8,1)": -4},
    ),
    _row(
        "shiftrightunsigned shift_right_unsigned",
        "n int, by int",
        "shiftrightunsigned({n}, {by})",
        "int",
        "Bits moved to the right, without the sign.",
        {"shiftrightunsigned(-1,28)": 15},
    ),
    _row(
        "hex toHex",
        "n long",
        "lower(hex({n}))",
        "string",
        "A whole number in base 16.",
        {"hex(255)": "ff", "hex(-1)": "ffffffffffffffff"},
    ),
    _row("bin toBinary", "n long", "bin({n})", "string", "A whole number in base 2.", {"bin(5)": "101"}),
    _row(
        "conv convertBase",
        "s text, base whole, to whole",
        _converted,
        "string",
        "A number converted from one base to another.",
        {
            "conv('ff',16,10)": "255",
            "conv('255',10,2)": "11111111",
            "conv('12x',10,2)": None,
            "conv('-ff',16,10)": "-255",
            "conv(concat('ff',chr(10)),16,10)": None,
            "conv('9223372036854775807',10,16)": "7fffffffffffffff",
            "conv('ffffffffffffffff',16,10)": "18446744073709551615",
        },
    ),
    _row(
        "ip2long addByIp2Long ipToLong",
        "s text",
        _address_as_number,
        "bigint",
        "An IPv4 address as a number; null for any other text.",
        {
            "ip2long('10.0.0.1')": 167772161,
            "ip2long('10.0.0.256')": None,
            "ip2long('x')": None,
            "ip2long(concat('10.0.0.1',chr(10)))": None,
        },
    ),
    _row(
        "long2ip longToIp",
        "n long",
        _number_as_address,
        "string",
        "A number as an IPv4 address.",
        {"long2ip(167772161)": "10.0.0.1", "long2ip(-1)": None},
    ),
)
