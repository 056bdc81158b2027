"""Arrays and maps of fields. Positions count from 0."""

from __future__ import annotations

from rs_assets.expressions.functions.function import Family
from rs_assets.expressions.functions.literals import separated_by

_row = Family("array").row
UNKNOWN = "unknown"
_LETTERS = "splitToArray('b,a,b',',')"

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
        "filter(cast({a} as array<string>), each -> each is distinct from {item})",
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
