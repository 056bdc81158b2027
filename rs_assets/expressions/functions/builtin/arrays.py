"""Arrays and maps of fields. Positions count from 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.function import Family
from rs_assets.expressions.functions.literals import is_null, separated_by, unquote
from rs_assets.expressions.functions.patterns import fault_of

_row = Family("array").row
UNKNOWN = "unknown"
_LETTERS = "splitToArray('b,a,b',',')"
# The parts `_rs_p` without the empty ones at their end, as pairs in the order of keys.
_USED: Final = "slice(_rs_p, 1, coalesce(array_max(transform(_rs_p, (x, i) -> if(x = '', 0, i + 1))), 0))"
_HALVES: Final = f"transform({_USED}, _rs_x -> split(_rs_x, {{equals}}, 2))"
_ENTRIES: Final = f"sort_array(transform({_HALVES}, (x, i) -> struct(get(x, 0) as k, i as i, get(x, 1) as v)))"
_LAST: Final = "filter(e, (x, n) -> get(e, n + 1).k is distinct from x.k)"
_MAP: Final = f"map_from_entries(transform({_LAST}, x -> struct(x.k as k, x.v as v)))"
_PAIRED: Final = (
    f"get(transform(array(split({{s}}, {{pairs}})), _rs_p -> get(transform(array({_ENTRIES}), e -> {_MAP}), 0)), 0)"
)
NO_MAP: Final = "cast(null as map<string,string>)"


def pairs_map(s: str, pairs: str, equals: str) -> str:
    """The SQL of a map of the pairs of a text, split by Java patterns; null if one of the three is null.

    A part without an equals sign is a key without a value; of equal keys the last one counts.
    """
    return f"if({equals} is null, {NO_MAP}, {_PAIRED.format(s=s, pairs=pairs, equals=equals)})"


def _mapped(texts: Mapping[str, str]) -> str:
    patterns = texts["pairs"], texts["equals"]
    if any(map(is_null, patterns)):
        return NO_MAP
    for pattern in patterns:
        fault = fault_of(unquote(pattern) or "")
        if fault is not None:
            remedy = "write a Java regular expression: ';' or '[,;]', with a backslash before a literal sign"
            raise TopologyError(f"the separator {unquote(pattern)!r} is wrong: {fault}", remedy=remedy)
    return pairs_map(texts["s"], *patterns)


ARRAYS = (
    _row(
        "splitToArray split_to_array",
        "s text, sep text",
        lambda t: f"if({t['sep']} = '', array({t['s']}), split({t['s']}, {separated_by(t['sep'])}))",
        "array<string>",
        "The parts between separators; the text itself where the separator is empty.",
        {
            "splitToArray('a.b','.')": ["a", "b"],
            "splitToArray(null,'.')": None,
            r"splitToArray('a\Eb','\E')": ["a", "b"],
            "splitToArray('ab','')": ["ab"],
        },
    ),
    _row(
        "str_to_map strToMap",
        "s text, pairs pattern = ',', equals pattern = '='",
        _mapped,
        "map<string,string>",
        "A map of pairs, which are split by Java patterns; of equal keys the last one counts.",
        {
            "str_to_map('k1=v1,k2=v2')": {"k1": "v1", "k2": "v2"},
            "element_at(str_to_map('k1=v1,k2=v2'),'k1')": "v1",
            "str_to_map('a:1;b:2;a:3:4;;c;;',';',':')": {"a": "3:4", "b": "2", "": None, "c": None},
            "str_to_map('a1b22c','[0-9]+','-')": {"a": None, "b": None, "c": None},
            "str_to_map('')": {},
            "str_to_map(null)": None,
        },
    ),
    _row(
        "array arrayOf",
        "items text...",
        "array({items})",
        "array<string>",
        "An array of texts.",
        {"array('a',null,1)": ["a", None, "1"]},
    ),
    _row(
        "get item",
        "a any, i int",
        "get({a}, {i})",
        UNKNOWN,
        "The item at a position; null if there is none.",
        {f"get({_LETTERS},1)": "a", f"item({_LETTERS},9)": None},
    ),
    _row(
        "element_at map_value",
        "m any, key any",
        "case when typeof({m}) like 'array%' and try_cast({key} as int) in (0, -2147483648) then null"
        " else try_element_at({m}, {key}) end",
        UNKNOWN,
        "The value of a key of a map, or the item of an array, counted from 1.",
        {f"element_at({_LETTERS},cast('1','int'))": "b", f"element_at({_LETTERS},0)": None},
    ),
    _row(
        "cardinality size array_length",
        "a any",
        "cardinality({a})",
        "int",
        "How many items or keys it has.",
        {f"cardinality({_LETTERS})": 3},
    ),
    _row(
        "array_join join",
        "a any, sep text",
        "array_join({a}, {sep})",
        "string",
        "The items joined by a separator; nulls are skipped.",
        {f"array_join({_LETTERS},'-')": "b-a-b"},
    ),
    _row(
        "array_contains arrayContains",
        "a any, item text",
        "coalesce(array_contains(cast({a} as array<string>), {item}), false)",
        "boolean",
        "Whether a text is one of the items.",
        {f"array_contains({_LETTERS},'a')": True, f"array_contains({_LETTERS},'x')": False},
    ),
    _row(
        "array_position arrayIndexOf",
        "a any, item text",
        "coalesce(array_position(cast({a} as array<string>), {item}) - 1, -1)",
        "bigint",
        "The position of the first item equal to a text; -1 if there is none.",
        {f"array_position({_LETTERS},'a')": 1, f"array_position({_LETTERS},'x')": -1},
    ),
    _row(
        "array_distinct arrayDistinct",
        "a any",
        "array_distinct({a})",
        UNKNOWN,
        "The items without duplicates.",
        {f"array_distinct({_LETTERS})": ["b", "a"]},
    ),
    _row(
        "array_sort arraySort",
        "a any",
        "array_sort({a})",
        UNKNOWN,
        "The sorted items, nulls at the end.",
        {f"array_sort({_LETTERS})": ["a", "b", "b"]},
    ),
    _row(
        "array_reverse arrayReverse",
        "a any",
        "reverse({a})",
        UNKNOWN,
        "The items in reverse order.",
        {"array_reverse(array('a','b'))": ["b", "a"]},
    ),
    _row(
        "array_max arrayMax", "a any", "array_max({a})", UNKNOWN, "The greatest item.", {f"array_max({_LETTERS})": "b"}
    ),
    _row("array_min arrayMin", "a any", "array_min({a})", UNKNOWN, "The least item.", {f"array_min({_LETTERS})": "a"}),
    _row(
        "array_first arrayFirst", "a any", "get({a}, 0)", UNKNOWN, "The first item.", {f"array_first({_LETTERS})": "b"}
    ),
    _row(
        "array_last arrayLast",
        "a any",
        "try_element_at({a}, -1)",
        UNKNOWN,
        "The last item.",
        {f"array_last({_LETTERS})": "b"},
    ),
    _row(
        "array_union arrayUnion",
        "a any, b any",
        "array_union({a}, {b})",
        UNKNOWN,
        "The items of either, without duplicates.",
        {f"array_union({_LETTERS},array('c'))": ["b", "a", "c"]},
    ),
    _row(
        "array_intersect arrayIntersect",
        "a any, b any",
        "array_intersect({a}, {b})",
        UNKNOWN,
        "The items of both, without duplicates.",
        {f"array_intersect({_LETTERS},array('a'))": ["a"]},
    ),
    _row(
        "array_except arrayExcept",
        "a any, b any",
        "array_except({a}, {b})",
        UNKNOWN,
        "The items of the first only, without duplicates.",
        {f"array_except({_LETTERS},array('a'))": ["b"]},
    ),
    _row(
        "array_remove arrayRemove",
        "a any, item text",
        "filter(cast({a} as array<string>), _rs_e -> _rs_e is distinct from {item})",
        "array<string>",
        "The items as texts, without those equal to `item`.",
        {f"array_remove({_LETTERS},'b')": ["a"]},
    ),
    _row(
        "array_compact arrayCompact",
        "a any",
        "array_compact({a})",
        UNKNOWN,
        "The items that are not null.",
        {"array_compact(array('a',null))": ["a"]},
    ),
)
