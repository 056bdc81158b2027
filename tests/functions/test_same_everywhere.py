"""A function gives the same in scripts, in SQL and in Python: all golden rows, in one run of Spark."""

from __future__ import annotations

import math

from rs_assets import functions
from rs_assets.expressions.functions.kinds import LITERALS
from rs_assets.expressions.functions.registry import FAMILIES, function_named
from rs_assets.expressions.script.parse import parse_script
from rs_assets.expressions.syntax.bind import CALLED, JOINED, Scope, bind
from rs_assets.expressions.syntax.tree import Call, Number, Text, Word
from rs_assets.sql.expressions.expressions import Expressions
from rs_assets.sql.expressions.functions import SQL_FUNCTIONS, Calls
from rs_assets.sql.expressions.rules import REFUSED, RULES
from rs_assets.sql.read.lexer import STRUCTURE, parsed, tokens_of
from rs_assets.sql.read.source import Text as Statement

GOLDEN = [example.call for table in FAMILIES for function in table for example in function.examples]


def call_of(text):
    [statement] = parse_script(f"x={text}")
    return statement.value


def in_script(call):
    return bind(call, Scope("", "golden", {})).text


def in_python(value):
    match value:
        case Call(name, arguments):
            kinds = function_named(name, len(arguments))
            return functions[name](
                *(
                    f"'{each.name}'"
                    if isinstance(each, Word) and kinds.kind_at(place) in LITERALS and each.name.lower() != "null"
                    else in_python(each)
                    for place, each in enumerate(arguments)
                )
            )
        case Number(digits):
            return float(digits) if "." in digits else int(digits)
        case Word(name) if name.lower() in ("null", "true", "false"):
            return {"null": None, "true": True, "false": False}[name.lower()]
        case _:
            return in_script(value)


def as_sql(value):
    match value:
        case Call(name, arguments):
            return f"{name}({', '.join(map(as_sql, arguments))})"
        case Text(text):
            return "'" + text.replace("'", "''") + "'"
        case Number(digits):
            return f"{digits}E0" if "." in digits else digits
        case Word(name):
            return name if name.lower() in ("null", "true", "false") else f"'{name}'"


def in_sql(call):
    statement = Statement(as_sql(call))
    made = Expressions(statement, lambda tree: None, Calls({}), RULES, REFUSED)
    return made.value(parsed(statement, tokens_of(statement))).plain


def calls_in(value):
    yield value.name
    for each in value.arguments:
        if isinstance(each, Call):
            yield from calls_in(each)


def is_plain(call):
    """Whether it is of functions and values alone: comparisons, and what joins them, are operators."""
    operators = call.name.casefold() in {*CALLED, *JOINED}
    inner = (
        is_plain(each) if isinstance(each, Call) else isinstance(each, Text | Number | Word) for each in call.arguments
    )
    return not operators and all(inner)


def comparable(call):
    """Calls of functions that are the same ones in all languages: not of those that SQL has from Flink."""
    names = {name.casefold() for name in calls_in(call)}
    flink = {name.casefold() for name in (*SQL_FUNCTIONS, *STRUCTURE, "cast", "trim", "extract", "position")}
    return names.isdisjoint(flink)


def plain(sql):
    """Without what differs in how it is written: brackets around it, the case of null, a blank behind a sign."""
    bare = sql[1:-1] if sql.startswith("(") and sql.endswith(")") else sql
    return bare.replace("NULL", "null").replace("- ", "-")


def same(one, other):
    return one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other))


CALLS = {text: call for text in GOLDEN if isinstance(call := call_of(text), Call) and is_plain(call)}


def test_should_give_the_same_in_every_language(driver):
    """Most become the same Spark SQL; what does not is computed."""
    scripts = {text: in_script(call) for text, call in CALLS.items()}
    python = {text: in_python(call).rs_sql for text, call in CALLS.items()}
    sql = {text: in_sql(call) for text, call in CALLS.items() if comparable(call)}
    assert (len(python) > 500, len(sql) > 300) == (True, True)
    pairs = [(text, scripts[text], other) for each in (python, sql) for text, other in each.items()]
    differing = [(text, one, other) for text, one, other in pairs if plain(one) != plain(other)]
    selected = ", ".join(f"{one} as a{n}, {other} as b{n}" for n, (_, one, other) in enumerate(differing))
    [row] = driver.call(lambda spark: spark.sql(f"select {selected}").collect())
    assert not [text for n, (text, *_) in enumerate(differing) if not same(row[f"a{n}"], row[f"b{n}"])]
