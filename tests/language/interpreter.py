"""Conditions and scripts in plain Python: their trees, walked over one record at a time."""

from __future__ import annotations

import ipaddress
import re
from decimal import Decimal

from rs_assets.expressions.condition.networks import network_of
from rs_assets.expressions.condition.parse import Atom
from rs_assets.expressions.script.parse import Assign, If
from rs_assets.expressions.syntax.tree import Both, Call, Compare, Not, Number, Text, Word
from tests.language.models import MODELS

ORDER = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
}


def text_of(value):
    return value if value is None or isinstance(value, str) else str(value)


def number_of(value, pattern=r"[-+]?\d+(\.\d+)?"):
    """What a cast makes of a text: nothing of one that is no number."""
    if value is None or isinstance(value, int | float):
        return value
    return float(value) if re.fullmatch(pattern, value.strip()) else None


def holds(condition, row):
    match condition:
        case Both("&", parts):
            return all(holds(part, row) for part in parts)
        case Both(_, parts):
            return any(holds(part, row) for part in parts)
        case Not(part):
            return not holds(part, row)
    return atom_holds(condition, row)


def atom_holds(atom: Atom, row):
    left = row[atom.left.name]
    if atom.operator not in ORDER:
        negated = "!" in atom.operator
        return (
            match_holds(atom.operator.replace("!", ""), (text_of(left) or "").strip(" "), left is None, atom) != negated
        )
    if atom.kind in ("int", "double") or (not atom.kind and atom.left.name in ("i", "d")):
        whole = atom.kind == "int" and isinstance(left, str)
        number = number_of(left, r"[-+]?\d+") if whole else number_of(left)
        if whole and number is not None and not -(2**31) <= number < 2**31:
            number = None
        if number is None:
            return False
        value = Decimal(atom.value)
        if (atom.kind != "int" and (isinstance(left, str) or atom.left.name == "d")) or atom.left.name == "d":
            near = abs(number - float(value)) < 1e-6
            return {"=": near, "!=": not near}.get(atom.operator, ORDER[atom.operator](number, float(value)))
        return ORDER[atom.operator](Decimal(number), value)
    return left is not None and text_of(left) != "" and ORDER[atom.operator](text_of(left), atom.value)


def match_holds(operator, text, missing, atom):
    if operator in ("isnull", "isnotnull"):
        return (text == "") == (operator == "isnull")
    return not missing and MATCHES[operator](text, atom.value)


def _is_like(text, value):
    parts = (".*" if sign == "%" else "." if sign == "_" else re.escape(sign) for sign in value)
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def _is_in_network(text, value):
    try:
        return "%" not in text and ipaddress.ip_address(text) in network_of(value)
    except ValueError:
        return False


MATCHES = {
    "in": lambda text, value: text in [item.strip() for item in value.split(",")],
    "like": _is_like,
    "regex": lambda text, value: re.search(value, text) is not None,
    "~regex": lambda text, value: re.search(value, text, re.IGNORECASE) is not None,
    "contains": lambda text, value: value in text,
    "~contains": lambda text, value: value.lower() in text.lower(),
    "ipcontains": _is_in_network,
}


def value_of(value, row):
    match value:
        case Word(name):
            return row.get(name, name)
        case Text(text):
            return text
        case Number(digits):
            return float(digits) if "." in digits else int(digits)
        case Compare(operator, left, right):
            return compared(operator, left, right, row)
        case Both("&", parts):
            return all(value_of(part, row) is True for part in parts)
        case Both(_, parts):
            return any(value_of(part, row) is True for part in parts)
        case Not(part):
            return value_of(part, row) is not True
        case Call(name, arguments):
            return MODELS[MADE[name]](*(value_of(each, row) for each in arguments))


# The functions that scripts of the test call, by the call whose model is theirs.
MADE = {"upper": "upper(s)", "trim": "trim(s)", "reverse": "reverse(s)", "length": "length(s)", "add": "add(i,j)"}
MADE |= {"left": "left(s,i)", "coalesce": "coalesce(s,p)"}


def compared(operator, left, right, row):
    one, other = value_of(left, row), value_of(right, row)
    if isinstance(right, Number):
        number = number_of(one)
        if operator in ("==", "!="):
            near = number is not None and (abs(number - other) < 0.001 if "." in right.digits else number == other)
            return near == (operator == "==")
        return number is not None and ORDER[operator](number, other)
    if operator in ("==", "!="):
        return (one == other) == (operator == "==")
    return one is not None and other is not None and ORDER[operator](one, other)


def run(statements, row):
    """The record behind a script, None if it was dropped."""
    for statement in statements:
        if row is None:
            return None
        match statement:
            case Assign(name, value):
                row = {**row, name: value_of(value, row)}
            case If(branches, otherwise):
                taken = next((body for test, body in branches if value_of(test, row) is True), otherwise)
                row = run(taken, row)
            case _:
                return None
    return row
