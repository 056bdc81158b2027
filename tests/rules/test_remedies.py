"""The remedies of rules, followed to the letter."""

import pytest

from rs_assets import Rules, StreamBuilder
from rs_assets.errors import RsError

MANY = ",".join(map(str, range(10_001)))
PAIRS = "&".join(f"((k,=,a{n})|(k,=,b{n}))" for n in range(7))
TABLE = [{"rule": "a", "condition": "(ms,>,1)", "severity": "high"}]


def logs():
    schema = "k string, ms bigint, at timestamp, x double, ok boolean, text string"
    return StreamBuilder.data_stream("test", "rules").from_file("in.jsonl", schema=schema)


def held(condition, stream=None):
    return (stream or logs()).match(Rules.of({"a": condition})).to_print().build()


# What is refused, what its remedy says, and the same with the remedy.
FOLLOWED = {
    "call": (lambda: held("(length(k),>,1)"), "script('x=", lambda: held("(x,>,1)", logs().script("x=length(k)"))),
    "type": (
        lambda: held("(at,isNull)"),
        "cast it in a step before",
        lambda: held("(a,isNull)", logs().with_fields(a="cast(at as string)")),
    ),
    "type of a sum": (
        lambda: held("(a,>,1)", logs().with_fields(a="ms + 1")),
        "cast it in a step before",
        lambda: held("(a,>,1)", logs().with_fields(a="cast(ms + 1 as bigint)")),
    ),
    "floating": (
        lambda: held("(x,regex,1)"),
        "cast it to a text",
        lambda: held("(a,regex,1)", logs().with_fields(a="cast(x as string)")),
    ),
    "boolean": (lambda: held("(ok,=,yes)"), "write true or false", lambda: held("(ok,=,true)")),
    "number": (
        lambda: held("(text,>,int,1)"),
        "text='try_cast(text as int)'",
        lambda: held("(text,>,int,1)", logs().with_fields(text="try_cast(text as int)")),
    ),
    "list": (lambda: held(f"(k,in,'{MANY}')"), "dim_join", lambda: held("(k,in,'1,2')")),
    "pattern": (
        lambda: held("(k,regex,'[a&&b]')"),
        "filter_by_expression",
        lambda: logs().filter_by_expression("(k,regex,'[a&&b]')").to_print().build(),
    ),
    "doubling": (lambda: held("(k,regex,'(a+)+$')"), "(a+)+ is a+", lambda: held("(k,regex,'a+$')")),
    "network": (lambda: held("(k,ipContains,x)"), "10.0.0.0/8", lambda: held("(k,ipContains,10.0.0.0/8)")),
    "alternatives": (lambda: held(PAIRS), "several rules", lambda: held("((k,=,a)|(k,=,b))&(ms,>,1)")),
    "no rule": (lambda: Rules.of(["a"]), "Rules.of", lambda: Rules.of({"slow": "(ms,>,100)"})),
    "twice": (lambda: Rules.of(TABLE * 2), "a name of its own", lambda: Rules.of([*TABLE, TABLE[0] | {"rule": "b"}])),
    "enabled": (
        lambda: Rules.from_delta("rules", columns="enabled string"),
        "columns='enabled boolean'",
        lambda: Rules.from_delta("rules", columns="enabled boolean"),
    ),
    "enabled of a program": (
        lambda: Rules.of([TABLE[0] | {"enabled": "false"}]),
        "values of that type",
        lambda: Rules.of([TABLE[0] | {"enabled": False}]),
    ),
    "case": (
        lambda: Rules.from_delta("rules", columns="Priority int"),
        "name it 'priority'",
        lambda: Rules.from_delta("rules", columns="priority int"),
    ),
    "half": (
        lambda: held(r"(k,regex,'\ud83d\ude00')"),
        "filter_by_expression",
        lambda: logs().filter_by_expression(r"(k,regex,'\ud83d\ude00')").to_print().build(),
    ),
    "no set": (lambda: logs().match({}), "Rules.of", lambda: logs().match(Rules.of({"slow": "(ms,>,100)"}))),
    "form": (
        lambda: logs().match(Rules.of(TABLE), form="some"),
        "per_match",
        lambda: logs().match(Rules.of(TABLE), form="per_match"),
    ),
    "carry": (
        lambda: logs().match(Rules.of(TABLE), carry=["severity"]),
        "form='per_match'",
        lambda: logs().match(Rules.of(TABLE), carry=["severity"], form="per_match"),
    ),
    "column": (
        lambda: logs().match(Rules.of(TABLE), carry=["weight"], form="per_match"),
        "severity",
        lambda: logs().match(Rules.of(TABLE), carry=["severity"], form="per_match"),
    ),
    "into": (
        lambda: logs().match(Rules.of(TABLE), into="_rs_x"),
        "into='rules'",
        lambda: logs().match(Rules.of(TABLE), into="rules"),
    ),
}


@pytest.mark.parametrize("case", FOLLOWED)
def test_a_remedy_of_a_rule_that_is_followed_to_the_letter_is_taken(case):
    refused, said, taken = FOLLOWED[case]
    with pytest.raises(RsError) as error:
        refused()
    assert said in str(error.value)
    taken()
