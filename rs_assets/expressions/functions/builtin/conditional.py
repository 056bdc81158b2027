"""Conditionals and predicates. A predicate is true or false, never null."""

from __future__ import annotations

from collections.abc import Mapping

from rs_assets.expressions.functions.function import Family, Template

_row = Family("conditional").row


def _joined(word: str) -> Template:
    """All or any of the conditions; null is false."""
    return lambda texts: f"{word}(array({texts['c']}), c -> coalesce(c, false))"


def _between(texts: Mapping[str, str]) -> str:
    """As whole numbers if all three are, else as numbers, else as texts."""
    each = [texts[name] for name in ("v", "low", "high")]
    made = f"{each[0]} between {each[1]} and {each[2]}"
    # A double would change long numbers.
    for kind in ("double", "bigint"):
        value, low, high = (f"try_cast({text} as {kind})" for text in each)
        numbers = f"{value} is not null and {low} is not null and {high} is not null"
        made = f"if({numbers}, {value} between {low} and {high}, {made})"
    return made


def _compared(operator: str) -> str:
    return f"coalesce({{a}} {operator} {{b}}, false)"


def _of_fields(operator: str) -> str:
    return f"coalesce(nullif({{a}}, '') {operator} nullif({{b}}, ''), false)"


CONDITIONAL = (
    _row(
        "if case iff",
        "c boolean, a any, b any",
        "if({c}, {a}, {b})",
        "",
        "The first value if the condition holds, else the second.",
        {"if(1<2,'Jack','Harry')": "Jack", "if(null,1,2)": 2},
    ),
    _row(
        "if case",
        "c boolean",
        "coalesce({c}, false)",
        "boolean",
        "Whether the condition holds.",
        {"if(1<2)": True, "if(null)": False},
    ),
    _row(
        "! !if not",
        "c boolean",
        "(not coalesce({c}, false))",
        "boolean",
        "Whether the condition does not hold.",
        {"not(1<2)": False, "not(null)": True},
    ),
    _row(
        "and & &&",
        "c boolean...",
        _joined("forall"),
        "boolean",
        "Whether all conditions hold.",
        {"and(1<2,2<3)": True, "and(1<2,null)": False},
    ),
    _row(
        "or | ||",
        "c boolean...",
        _joined("exists"),
        "boolean",
        "Whether any of the conditions holds.",
        {"or(1>2,2<3)": True, "or(1>2,null)": False},
    ),
    _row(
        "xor",
        "a boolean, b boolean",
        "(coalesce({a}, false) != coalesce({b}, false))",
        "boolean",
        "Whether exactly one of two conditions holds.",
        {"xor(1>2,2<3)": True},
    ),
    _row(
        "coalesce nvl ifnull firstNotNull",
        "a any, b any, more any...",
        lambda t: f"coalesce({', '.join(filter(None, (t['a'], t['b'], t['more'])))})",
        "",
        "The first value that is not null.",
        {"coalesce(null,'30')": "30", "nvl('a','b')": "a", "coalesce(null,null,3)": 3},
    ),
    _row(
        "nvl2",
        "c any, a any, b any",
        "nvl2({c}, {a}, {b})",
        "",
        "The second value where the first is not null, else the third.",
        {"nvl2(null,'a','b')": "b"},
    ),
    _row(
        "nullif",
        "a text, b text",
        "nullif({a}, {b})",
        "string",
        "Null where two texts are equal, else the first.",
        {"nullif('a','a')": None, "nullif('a','b')": "a"},
    ),
    _row(
        "emptyToNull nullIfEmpty",
        "s text",
        "nullif({s}, '')",
        "string",
        "The text; null if it is empty.",
        {"emptyToNull('')": None},
    ),
    _row("nullToEmpty", "s text", "coalesce({s}, '')", "string", "The text; empty if null.", {"nullToEmpty(null)": ""}),
    _row(
        "greatest max_of",
        "a number, b number, more number...",
        lambda t: f"greatest({', '.join(filter(None, (t['a'], t['b'], t['more'])))})",
        "double",
        "The greatest number; nulls are skipped.",
        {"greatest(1,3,2)": 3.0, "greatest(1,null)": 1.0},
    ),
    _row(
        "least min_of",
        "a number, b number, more number...",
        lambda t: f"least({', '.join(filter(None, (t['a'], t['b'], t['more'])))})",
        "double",
        "The least number; nulls are skipped.",
        {"least(1,3,2)": 1.0},
    ),
    _row(
        "isNull null",
        "s text",
        "coalesce(lower({s}) in ('', 'null'), true)",
        "boolean",
        "Whether it is null, an empty text or the word null.",
        {"isNull(null)": True, "isNull('')": True, "isNull('NULL')": True, "isNull('a')": False},
    ),
    _row(
        "isNotNull !null !isNull notNull",
        "s text",
        "(not coalesce(lower({s}) in ('', 'null'), true))",
        "boolean",
        "Whether it is not null, an empty text or the word null.",
        {"isNotNull('a')": True, "isNotNull('')": False},
    ),
    _row(
        "isFieldEmpty isEmpty",
        "s text",
        "coalesce({s} = '', true)",
        "boolean",
        "Whether it is null or an empty text.",
        {"isFieldEmpty('')": True, "isFieldEmpty(' ')": False},
    ),
    _row(
        "isBlank",
        "s text",
        "coalesce(trim({s}) = '', true)",
        "boolean",
        "Whether it is null, empty or only blanks.",
        {"isBlank('  ')": True, "isBlank(null)": True, "isBlank('a')": False},
    ),
    _row(
        "isTrue",
        "c boolean",
        "coalesce({c}, false)",
        "boolean",
        "Whether it is true.",
        {"isTrue('true')": True, "isTrue('x')": False},
    ),
    _row(
        "isFalse",
        "c boolean",
        "coalesce(not {c}, false)",
        "boolean",
        "Whether it is false, and not null.",
        {"isFalse('false')": True, "isFalse(null)": False},
    ),
    _row(
        "between",
        "v text, low text, high text",
        lambda t: f"coalesce({_between(t)}, false)",
        "boolean",
        "Whether it is between two bounds, inclusive; compared as numbers if all are numbers.",
        {
            "between(5,1,10)": True,
            "between('b','a','c')": True,
            "between(null,1,2)": False,
            "between('1e1','2.5',11)": True,
            "between('9007199254740993',0,'9007199254740992')": False,
        },
    ),
    _row(
        "between_not betweennot notBetween",
        "v text, low text, high text",
        lambda t: f"coalesce(not ({_between(t)}), false)",
        "boolean",
        "Whether it is outside of two bounds; false for null.",
        {"between_not(5,1,10)": False, "between_not(11,1,10)": True, "between_not(null,1,2)": False},
    ),
    _row(
        "convert_boolen convertBoolen convertBoolean",
        "s text",
        "if(lower({s}) = 'true', 1, 0)",
        "int",
        "1 for true, else 0.",
        {"convert_boolen('TRUE')": 1, "convert_boolen(null)": 0},
    ),
    _row(
        "in contain",
        "s text, items text...",
        "coalesce({s} in ({items}), false)",
        "boolean",
        "Whether it is one of the items.",
        {"in('a','a','b')": True, "contain(3,1,2)": False, "in(null,'a')": False},
    ),
    _row(
        "!in !contain notIn",
        "s text, items text...",
        "(not coalesce({s} in ({items}), false))",
        "boolean",
        "Whether it is not one of the items.",
        {"notIn('a','a','b')": False, "!contain(null,'a')": True},
    ),
    _row(
        "gt",
        "a text, b text",
        _compared(">"),
        "boolean",
        "Whether the first text is greater than the second.",
        {"gt('b','a')": True, "gt('10','9')": False},
    ),
    _row(
        "ge",
        "a text, b text",
        _compared(">="),
        "boolean",
        "Whether the first text is greater than or equal to the second.",
        {"ge('a','a')": True},
    ),
    _row(
        "lt",
        "a text, b text",
        _compared("<"),
        "boolean",
        "Whether the first text is less than the second.",
        {"lt('10','9')": True, "lt(null,'a')": False},
    ),
    _row(
        "le",
        "a text, b text",
        _compared("<="),
        "boolean",
        "Whether the first text is less than or equal to the second.",
        {"le('a','b')": True},
    ),
    _row(
        "gtByField",
        "a text, b text",
        _of_fields(">"),
        "boolean",
        "Like gt; false if one is empty.",
        {"gtByField('b','')": False, "gtByField('b','a')": True},
    ),
    _row(
        "geByField",
        "a text, b text",
        _of_fields(">="),
        "boolean",
        "Like ge; false if one is empty.",
        {"geByField('','')": False},
    ),
    _row(
        "ltByField",
        "a text, b text",
        _of_fields("<"),
        "boolean",
        "Like lt; false if one is empty.",
        {"ltByField('','b')": False},
    ),
    _row(
        "leByField",
        "a text, b text",
        _of_fields("<="),
        "boolean",
        "Like le; false if one is empty.",
        {"leByField('a','a')": True},
    ),
    _row(
        "equalsByField equalByField",
        "a text, b text",
        _of_fields("="),
        "boolean",
        "Whether two texts are equal and not empty.",
        {"equalsByField('a','a')": True, "equalsByField('','')": False},
    ),
    _row(
        "equalsIgnoreCase",
        "a text, b text",
        "coalesce(lower({a}) = lower({b}), false)",
        "boolean",
        "Whether two texts are equal, ignoring case.",
        {"equalsIgnoreCase('aB','Ab')": True},
    ),
)
