"""What is wrong is refused when the pipeline is written or built, with its place and what to write."""

from __future__ import annotations

import pytest

from rs_assets.errors import TopologyError, UnknownFieldError
from rs_assets.expressions.condition.bind import condition_sql
from rs_assets.expressions.syntax.place import LanguageError

SCHEMA = "name string, age int, score double, at timestamp, items array<struct<id: int>>, ok boolean"
# A condition, the column of the fault, and a part of what is said.
CONDITIONS = [
    ("", 1, "is empty"),
    ("(age,>,18", 10, "1 bracket not closed"),
    ("(age,>,18))", 11, "1 closing bracket too many"),
    ("age,>,18", 1, "is not allowed here"),
    ("(age,>,int,18)&((name,like,'a%')|(name,ipContains,'10.')))", 58, "1 closing bracket too many"),
    ("(age,>,18)(name,=,a)", 11, "is not allowed here"),
    ("(age,>,18)&", 12, "the end is not allowed here"),
    ("(age,>,'18)", 8, "quote is not closed"),
    ("(age,>)", 1, "has 3 or 4 parts, not 2"),
    ("(age)", 5, "is not allowed here"),
    ("(age,over,18)", 6, "unknown operator 'over'"),
    ("(age,in,1,2)", 9, "'1' is not a type"),
    ("(age,>,int,1,2)", 1, "not 5"),
    ("(age,>,int,abc)", 12, "'abc' is not a number"),
    ("(age,>,)", 8, "is not allowed here"),
    ("(age,>,abc)", 8, "'abc' is not a number"),
    ("(score,=,1e999)", 10, "is not a number"),
    ("(ok,=,maybe)", 7, "neither true nor false"),
    ("(at,>,yesterday)", 7, "is not a time"),
    ("(name,>,date,soon)", 14, "is not a time"),
    ("(at,<,2026-02-30)", 7, "is not a time"),
    ("(name,!=,date,'2026-01-31 24:00:00')", 15, "is not a time"),
    ("(at,>,2026-01-31 12:30Z)", 7, "is not a time"),
    ("(at,>,2026-01-31T12:30:00+19:00)", 7, "is not a time"),
    ("(name,regex,'(')", 13, "'(' is not closed"),
    ("(name,regex,'*a')", 13, "repeats nothing"),
    ("(name,ipContains,'ten')", 18, "is not a network"),
    ("(name,ipContains,'10.0.0.0/40')", 18, "is not a network"),
    ("(name,=,trim(name))", 9, "must be a constant"),
    ("(trimm(name),=,a)", 2, "no function 'trimm'"),
    ("(trim(),=,a)", 2, "wrong number of arguments for trim: 0"),
    ("(substring(name),=,a)", 2, "wrong number of arguments for substring: 1"),
    ("(" * 101 + "age,>,1" + ")" * 101, 101, "more than 100 deep"),
]
# The same of scripts.
SCRIPTS = [
    ("", 1, "is empty"),
    ("x=", 3, "the end is not allowed here"),
    ("x=trim(name", 12, "1 bracket not closed"),
    ("x=trim(name))", 13, "1 closing bracket too many"),
    ("x='abc", 3, "quote is not closed"),
    ("x y", 3, "is not allowed here"),
    ("=1", 1, "is not allowed here"),
    ("x=1 y=2", 5, "is not allowed here"),
    ("if(age>1)x=2", 10, "is not allowed here"),
    ("if(age>1){x=2", 14, "the end is not allowed here"),
    ("if age>1 {x=2}", 4, "is not allowed here"),
    ("else{x=1}", 5, "is not allowed here"),
    ("if(age>1){x=1}else{x=2}elseif(age>2){x=3}", 24, "is not allowed here"),
    ("x=age>1>2", 8, "is not allowed here"),
    ("x=upperr(name)", 3, "no function 'upperr'"),
    ("x=upper(name,1)", 3, "wrong number of arguments for upper: 2"),
    ("x=upper()", 3, "wrong number of arguments for upper: 0"),
    ("x=1;\ny=upperr(name)", 3, "no function 'upperr'"),
    ("upper(name)", 1, "is not used"),
    ("upperr(name)", 1, "no function 'upperr'"),
    ("x=date_format(at,'YYYY')", 3, "not a part of a time"),
    ("x=dateadd(at,1,'fortnight')", 3, "not a unit of time"),
    ("x=cast(name,'money')", 3, "cannot be 'money'"),
    ("x=conv(name,1,99)", 3, "between 2 and 36"),
    ("x=round(score,age)", 3, "must be a whole number"),
    ("x=regexp_extract(name,'a(b)',2)", 3, "has 1 group, not 2"),
    ("x=regexp_extract_all(name,'a(b)',2)", 3, "has 1 group, not 2"),
    ("x=regexp_replace(name,'a','$1')", 3, "names a group"),
    ("x=parse_url(name,'PORT')", 3, "no part 'PORT'"),
    ("x=math('^',1,2)", 3, "unknown operator '^'"),
    ("x=nextday(at,'someday')", 3, "not a day of the week"),
    ("x=regex(name,upper('a'))", 3, "must be a literal"),
    ("rm(nothing)", 4, "no field 'nothing'"),
    ("rm(trim(name))", 4, "takes names of fields"),
    ("rename(a)", 1, "takes two names"),
    ("rename(a,nothing)", 10, "no field 'nothing'"),
    ("break(1)", 1, "takes no argument"),
    ("retain()", 1, "no field is left"),
    ("Name='x'", 1, "differ by case only"),
    ("_rs_line='x'", 1, "is a reserved name"),
    ("splitArray(name)", 1, "is not an array of objects"),
    ("splitArray(nothing)", 12, "no field 'nothing'"),
    ("if(age>1){splitArray(items)}", 11, "is not allowed in a branch"),
    ("string_split(name)", 1, "takes a text and a separator"),
    ("expand_json(name)", 1, "'name' has no fields: it is string"),
    ("expand_json(name,age)", 1, "takes a field, and the schema of its document"),
    ("json_merge(nothing,'a int')", 12, "no field 'nothing'"),
    ("for_field(name)", 1, "takes a script in quotes"),
    ("for_field('x=upperr(iterator.key)')", 3, "no function 'upperr'"),
    ("for_field('iterator.value=1')", 1, "iterator.value cannot be assigned"),
    ("for_field('if(age>1){break()}')", 11, "break is not allowed in for_field"),
    ("x=json_create(name,age,more)", 3, "the last name has no value"),
    ("x=json_create(name,age,age,name)", 3, "must be a literal, not `age`"),
    ("x=json_add(name,a,1,'a',2)", 3, "the name 'a' twice"),
    ("x=str_to_map(name,'(')", 3, "'(' is not closed"),
    ("x=" + "concat(" * 101 + "name" + ")" * 101, 709, "more than 100 deep"),
]


@pytest.mark.parametrize(("text", "column", "told"), CONDITIONS, ids=lambda value: str(value)[:30])
def test_should_refuse_a_wrong_condition(source, text, column, told):
    with pytest.raises(LanguageError) as refused:
        source(SCHEMA).filter_by_expression(text).to_print().build()
    assert told in str(refused.value)
    assert (refused.value.line, refused.value.column) == (1, column)


@pytest.mark.parametrize(("text", "column", "told"), SCRIPTS, ids=lambda value: str(value)[:30])
def test_should_refuse_a_wrong_script(source, text, column, told):
    with pytest.raises(LanguageError) as refused:
        source(SCHEMA).script(text).to_print().build()
    assert told in str(refused.value)
    assert (refused.value.line, refused.value.column) == (text.count("\n") + 1, column)


def test_should_name_the_nearest_field(source):
    with pytest.raises(UnknownFieldError, match="did you mean 'age'"):
        source(SCHEMA).filter_by_expression("(agee,>,18)").to_print().build()
    with pytest.raises(LanguageError, match="there is no field 'agee'"):
        source(SCHEMA).script("x=trim(agee)", strict=True).to_print().build()
    with pytest.raises(TopologyError, match="no time zone"):
        source(SCHEMA).script("x=now()", zone="Mars/Olympus")


def test_should_know_the_fields_behind_a_script(source):
    stream = source(SCHEMA).script("n=length(name);rename(years,age);splitArray(items)")
    stream.filter("n > 1 and years > 2 and id > 3").to_print().build()
    with pytest.raises(UnknownFieldError):
        stream.filter("age > 1").to_print().build()


@pytest.mark.parametrize(
    ("condition", "holds_for_numbers"),
    [
        ("(n,<,9223372036854775807.5)", True),
        ("(n,>=,9223372036854775807.5)", False),
        ("(n,=,-9223372036854775808.5)", False),
    ],
)
def test_a_number_beyond_those_of_a_field_is_not_compared(condition, holds_for_numbers):
    # Spark takes null for a value there, when it simplifies the comparison.
    sql = condition_sql(condition, {"n": "bigint"}, step="numbers")
    assert sql == ("(`n` is not null)" if holds_for_numbers else "false")
