"""Scripts on real Spark: what they fill, drop, rename and multiply."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

SCHEMA = "name string, age int, tags string, items array<struct<id: int, what: string>>"
ROWS = [
    {"name": " Ann ", "age": 17, "tags": "a-b", "items": [{"id": 1, "what": "x"}, {"id": 2, "what": "y"}]},
    {"name": "Bob", "age": 30, "tags": "c", "items": []},
    {"name": None, "age": None, "tags": None, "items": None},
]


def test_should_fill_branch_drop_and_rename(source, drive):
    text = """
        name=trim(name);
        if(age>=18){kind='grown'; age=concat(age,'!')}
        elseif(age>10){kind='young'}
        else{break()};
        rename(who,name); rm(tags,items)
    """
    rows = drive(source(SCHEMA).script(text), ROWS)
    assert rows == [{"who": "Ann", "age": "17", "kind": "young"}, {"who": "Bob", "age": "30!", "kind": "grown"}]


def test_should_make_a_record_of_each_item_and_part(source, compute):
    rows = compute(source(SCHEMA).script("retain(age,items);splitArray(items)"), ROWS)
    wanted = [(17, 1, "x"), (17, 2, "y"), (30, None, None), (None, None, None)]
    assert [(row["age"], row["id"], row["what"]) for row in rows] == wanted
    rows = compute(source(SCHEMA).script("retain(tags);string_split(tags,'-')"), ROWS)
    assert [(row["tags"], row["f0"]) for row in rows] == [("a-b", "a"), ("a-b", "b"), ("c", "c")]


def test_should_filter_by_an_expression(source, compute):
    text = "(age,>,int,18)&((name,like,'B%')|(tags,ipContains,'10.'))"
    assert [row["name"] for row in compute(source(SCHEMA).filter_by_expression(text), ROWS)] == ["Bob"]


LOOP = """
    seen='';
    for_field("if(iterator.key!='seen'&(iterator.value==null|iterator.value=='')){
        seen=concat(seen,iterator.key,' ');rm(iterator.key)
    }elseif(iterator.key!='seen'){b=iterator.value}")
"""


def looped(row):
    """A record after LOOP: the fields in order, each with its value from before the loop."""
    before = {**row, "seen": ""}
    made = dict(before)
    for key, value in row.items():
        if value is None or value == "":
            made |= {"seen": f"{made['seen']}{key} ", key: None}
        else:
            made["b"] = str(value)
    return made


def test_for_field_runs_a_script_for_each_field_with_its_value_from_before(source, compute):
    rows = [dict(zip("abc", values, strict=True)) for values in [("x", None, 1), ("", "y", None), ("x", "y", 0)]]
    assert compute(source("a string, b string, c int").script(LOOP), rows) == [looped(row) for row in rows]
    # In a branch, and without a change of the fields themselves.
    text = "if(c>0){for_field('n=iterator.key;if(iterator.key==a){found=iterator.value}')}else{c=7}"
    found = compute(
        source("a string, b string, c int").script(text), [{"a": "b", "b": "z", "c": 1}, {"a": "b", "c": 0}]
    )
    assert [(row["n"], row["found"], row["c"]) for row in found] == [("c", "z", 1), (None, None, 7)]


def test_expand_json_gives_the_members_of_a_document_as_fields(source, compute):
    docs = ['{"id": 1, "what": "x", "more": [1]}', '{"what": "y"}', "[1]", "no", None]
    rows = [{"doc": doc, "id": -1, "part": {"n": at} if at else None} for at, doc in enumerate(docs)]
    of = source("doc string, id int, part struct<n: int>")
    found = compute(of.script("expand_json(doc,'id int, what string');expand_json(part)"), rows)
    wanted = [(1, "x"), (-1, "y"), (-1, None), (-1, None), (-1, None)]
    assert found == [{"id": one, "what": what, "n": at or None} for at, (one, what) in enumerate(wanted)]
    odd = [
        {"doc": '{"t": 200, "d": "1,5", "at": "12:30"}'},
        {"doc": '{"t": -7, "d": 12345678901234567890.5, "at": "2026-01-05T10:00:00Z", "s": 12345678901234567890.5}'},
    ]
    text = "expand_json(doc,'t tinyint, d decimal(30,1), at timestamp, s string');d=tochar(d);at=unixtimestamp(at)"
    assert compute(source("doc string").script(text), odd) == [
        {"t": None, "d": None, "at": None, "s": None},
        {"t": -7, "d": "12345678901234567890.5", "at": 1767607200, "s": "12345678901234567890.5"},
    ]
    noon = {"doc": '{"at": "2026-01-05 12:00:00"}', "list": '[{"to": "2026-01-05 12:00:00"}]'}
    text = "expand_json(doc,'at timestamp');splitArray(list,'to timestamp');at=unixtimestamp(at);to=unixtimestamp(to)"
    (found,) = compute(source("doc string, list string").script(text, zone="Asia/Shanghai"), [noon])
    assert found == {"at": 1767585600, "to": 1767585600}
    text = "if(id<0){seen='never'}else{seen=at};all=concat(tochar(at),'');rm(id)"
    seen = [{"id": 1, "at": datetime(2026, 1, 31, 20, tzinfo=UTC)}]
    (found,) = compute(source("id int, at timestamp").script(text, zone="Asia/Shanghai"), seen)
    assert (found["seen"], found["all"]) == ("2026-02-01 04:00:00",) * 2
    text = "if(id<0){json_merge(doc,'what string, doc string')}else{json_expand(doc,'what string')}"
    found = compute(of.script(text), [{"doc": docs[0], "id": -1}, {"doc": docs[0], "id": 0}])
    assert [(row["doc"], row["what"]) for row in found] == [(docs[0], "x"), (None, "x")]


# Values that Spark's parser changes, and after them those of the type; below, what must come of both.
ODD = '{"t": 200, "d": "1,5", "at": "12:30", "day": "20260105"}'
GOOD = '{"t": -7, "d": 12345678901234567890.5, "at": "1970-01-01T00:00:07Z", "day": "2026-01-05"}'
KIND = "t tinyint, d decimal(30,1), at timestamp, day date"
NOTHING = {"t": None, "d": None, "at": None, "day": None}
VALUES = {"t": -7, "d": Decimal("12345678901234567890.5"), "at": 7, "day": date(2026, 1, 5)}


def test_values_inside_of_documents_are_those_that_are_written(source, compute):
    one, many = f'{{"odd": {ODD}, "good": {GOOD}}}', f'{{"a": [{ODD}], "b": [{GOOD}]}}'
    doc = f'{{"one": {one}, "list": [{ODD}, null, {GOOD}], "Of": {many}}}'
    schema = f"one struct<odd: struct<{KIND}>, good: struct<{KIND}>>, list array<struct<{KIND}>>"
    rows = [{"doc": doc}, {"doc": "no"}, {"doc": None}]
    script = f"expand_json(doc,'{schema}, Of map<string, array<struct<{KIND}>>>')"
    found, *others = compute(source("doc string").script(script), rows)
    assert others == [{"one": None, "list": None, "Of": None}] * 2
    assert [seconds(found["one"][name]) for name in ("odd", "good")] == [NOTHING, VALUES]
    assert [each and seconds(each) for each in found["list"]] == [NOTHING, None, VALUES]
    assert [seconds(found["Of"][key][0]) for key in "ab"] == [NOTHING, VALUES]


def test_split_array_gives_values_that_are_written(source, compute):
    items = f'[{ODD}, {{"part": {ODD}}}, {GOOD}]'
    text = f"splitArray(list,'{KIND}, part struct<{KIND}>')"
    found = compute(source("list string").script(text), [{"list": items}, {"list": None}])
    parts = [row.pop("part") for row in found]
    assert [part and seconds(part) for part in parts] == [None, NOTHING, None, None]
    assert [seconds(row) for row in found] == [NOTHING, NOTHING, VALUES, NOTHING]


def seconds(row):
    """A row with its time as seconds."""
    return {**row, "at": row["at"] and int(row["at"].timestamp())}
