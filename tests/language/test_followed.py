"""Remedies of conditions and scripts, followed to the letter: then the text is taken. No Spark."""

from __future__ import annotations

from functools import partial

import pytest

from rs_assets import StreamBuilder, table_function
from rs_assets.errors import TopologyError
from tests.project.raised import unraised

SCHEMA = (
    "name string, age int, score double, at timestamp, items array<struct<id: int>>, ok boolean, page string, `a.b` int"
)
THIS = "language/test_followed.py::test_a_remedy_of_a_text_that_is_followed_to_the_letter_is_taken"
DEEP = 101


@table_function()
def followed_parts(text: str, most: int) -> list[str]:
    """Rows for a script."""
    return [text][:most]


# A condition that is refused, words of the remedy, and what these words say to write instead.
CONDITIONS = [
    ("(age,>,int,abc)", "write digits", "(age,>,int,12)"),
    ("(age,=,abc)", "(field,=,string,value)", "(age,=,string,abc)"),
    ("(at,>,yesterday)", "write it as 2026-01-31 23:59:59", "(at,>,'2026-01-31 23:59:59')"),
    ("(at,>,yesterday)", "write it as 2026-01-31 23:59:59", "(at,>,2026-01-31 23:59:59)"),
    ("(ok,=,maybe)", "write true or false", "(ok,=,true)"),
    ("(name,regex,'a(')", "escape literal characters with a backslash", r"(name,regex,'a\(')"),
    (r"(name,regex,'\p{Han}')", r"\p{IsLatin}", r"(name,regex,'\p{IsLatin}')"),
    ("(name,ipContains,'ten')", "10.0.0.0/8", "(name,ipContains,'10.0.0.0/8')"),
    ("(age,trim(name),18)", "(field,operator,value)", "(age,>,18)"),
    ("(age,over,18)", ">=", "(age,>=,18)"),
    ("(age,in,1,2)", "write a list as one text: 'a,b'", "(age,in,'1,2')"),
    ("(age,money,int,2)", "use one of: ", "(age,=,int,2)"),
    ("(age,=,money,2)", "is a type, one of: ", "(age,=,int,2)"),
    ("(age,>)", "(field,operator,value)", "(age,>,18)"),
    ("(name,=,trim(name))", "put the call on the left", "(trim(name),=,name)"),
    ("(age,>,'18)", "close it", "(age,>,'18')"),
    ("(name,=,'it)", r"write an inner quote as \'", r"(name,=,'it\'s')"),
    ("(age,>,18", "expected '(' or ')'", "(age,>,18)"),
    ("(age,>,18)&", "expected '!' or '('", "(age,>,18)&!(age,>,20)"),
    ("(" * DEEP + "age,>,1" + ")" * DEEP, "split it", "(age,>,1)"),
    ("(name,=,'" + "a" * 100_000 + "')", "split it", "(name,=,'a')"),
    ("!" * DEEP + "(age,>,1)", "write one or none", "!(age,>,1)"),
    ("(trimm(name),=,a)", "did you mean 'trim'", "(trim(name),=,a)"),
]
# The same of scripts.
SCRIPTS = [
    ("Name='x'", "choose another name", "other='x'"),
    ("upper(name)", "assign it to a field: x=upper(...)", "x=upper(name)"),
    ("rm(nothing)", "the fields are: name, age", "rm(name,age)"),
    ("break(1)", "write break()", "break()"),
    ("retain()", "drop the record by break()", "break()"),
    ("rename(a)", "write rename(new,old)", "rename(new,name)"),
    ("addField(a)", "write addField(name,1)", "addField(more,1)"),
    ("splitArray()", "write splitArray(items) or splitArray(items,'a string, b int')", "splitArray(items)"),
    ("splitArray(name)", "splitArray(name,'a string, b int')", "splitArray(name,'a string, b int')"),
    ("string_split(name)", "write string_split(a,'-')", "string_split(name,'-')"),
    (
        "for_field(name)",
        "write for_field('if(iterator.value==null){missing=iterator.key}')",
        "for_field('if(iterator.value==null){missing=iterator.key}')",
    ),
    (
        "expand_json(name,age)",
        "write expand_json(doc,'id int, what string')",
        "expand_json(name,'id int, what string')",
    ),
    ("expand_json(name)", "expand_json(name,'id int, what string')", "expand_json(name,'id int, what string')"),
    ("for_field('iterator.value=1')", "assign a field of another name", "for_field('other=1')"),
    (
        "for_field('if(iterator.value==null){break()}')",
        "found='yes' and if(found=='yes'){break()}",
        "for_field(\"if(iterator.value==null){found='yes'}\");if(found=='yes'){break()}",
    ),
    (
        "if(age>1){splitArray(items)}",
        "put it after the branch, and filter before it with break()",
        "if(age<=1){break()} splitArray(items)",
    ),
    (
        "grok(name)",
        "write grok(line,'%{IP:client} %{INT:ms:int}')",
        "grok(name,'%{IP:client} %{INT:ms:int}')",
    ),
    ("grok(name,1)", "write it in quotes", "grok(name,'(?<one>1)')"),
    ("grok(name,'%{WROD:a}')", "did you mean %{WORD}?", "grok(name,'%{WORD:a}')"),
    ("addGrok(A)", "write addGrok(LEVEL,'[A-Z]+')", "addGrok(LEVEL,'[A-Z]+')"),
    ("addGrok('a b','c')", "use letters, digits and _: LEVEL", "addGrok(LEVEL,'c')"),
    ("addGrok(A,'(')", "with names of others as %{WORD}", "addGrok(A,'%{WORD}')"),
    ("addGrok(A,'%{WROD}')", "did you mean %{WORD}?", "addGrok(A,'%{WORD}')"),
    ("split(name,'|')", "write split(line,'|',first,second)", "split(name,'|',first,second)"),
    ("split(name,'',a)", "write a blank: ' '", "split(name,' ',a)"),
    ("split(name,upper('a'),a)", "write it in quotes", "split(name,'A',a)"),
    ("paserByComma(name,a,a)", "choose another name", "paserByComma(name,a,b)"),
    ("paserByComma(name)", "write paserByComma(line,first,second)", "paserByComma(name,first,second)"),
    ("paserByAsciiSplit(name,256,a)", "write a whole number from 1 to 255: 9", "paserByAsciiSplit(name,9,a)"),
    ("paserByRegex(name,'(',a)", "'([a-z]+) (.*)'", "paserByRegex(name,'([a-z]+) (.*)',a)"),
    ("paserByRegex(name,'a')", "put each field in brackets: '([a-z]+) (.*)'", "paserByRegex(name,'([a-z]+) (.*)')"),
    ("paserByRegex(name,'(a)',a,b)", "'([a-z]+) (.*)'", "paserByRegex(name,'([a-z]+) (.*)',a,b)"),
    ("parse_express(name,' ')", "write parse_express(line,' ',src,dst)", "parse_express(name,' ',src,dst)"),
    ("parse_express(name,'',src)", "write a blank: ' '", "parse_express(name,' ',src)"),
    ("x=parse_express(name,null)", "write a blank: ' '", "x=parse_express(name,' ')"),
    ("x=name-age", "write a text in quotes: 'name-age'", "x='name-age'"),
    ("x=score-age", "write subtraction(a,b)", "x=subtraction(score,age)"),
    ("x=" + "to_date(" * 9 + "name" + ")" * 9, "assign inner calls to fields: x=...", "x=to_date(name);x=to_date(x)"),
    ("x=followed_parts(name,1)", "statement", "followed_parts(name,1)"),
    ("followed_parts(name)", "write followed_parts(", "followed_parts(name,1)"),
    ("x=date_format(at,'YYYY')", "write a year as yyyy", "x=date_format(at,'yyyy')"),
    ("x=date_format(at,'T')", "quote literal text", "x=date_format(at,\"'T'\")"),
    ("x=date_format(at,'')", "'yyyy-MM-dd HH:mm:ss'", "x=date_format(at,'yyyy-MM-dd HH:mm:ss')"),
    ("x=conv(name,1,99)", "write conv(a,16,10)", "x=conv(name,16,10)"),
    ("x=round(score,age)", "write digits", "x=round(score,2)"),
    ("x=regexp_extract(name,'ab',1)", "'a(.*)b'", "x=regexp_extract(name,'a(.*)b',1)"),
    ("x=regexp_replace(name,'a','$1')", r"write a literal $ as \$", r"x=regexp_replace(name,'a','\$1')"),
    ("x=regex(name,upper('a'))", "'like this'", "x=regex(name,'like this')"),
    ("x=truncate(score,99)", "use -18 to 18", "x=truncate(score,-18)"),
    ("x=get_json_object(name,'a.b')", "write it as $.key", "x=get_json_object(name,'$.key')"),
    ("x=get_json_object(name,'a.b')", "$['a key'], $[0] or $[*]", "x=get_json_object(name,\"$['a key'][0][*]\")"),
    ("x=upper(name,1)", "write upper(", "x=upper(name)"),
    ("x=json_create(name,age,age)", "json_create('name',name,'age',age)", "x=json_create('name',name,'age',age)"),
    (
        "x=json_create(name,age,age,1)",
        "write json_create('name',name,'age',age)",
        "x=json_create('name',name,'age',age)",
    ),
    ("x=json_add(name,a,1,'a',2)", "choose another name", "x=json_add(name,a,1,'b',2)"),
    ("x=str_to_map(name,'(')", "write a Java regular expression: ';' or '[,;]'", "x=str_to_map(name,'[,;]')"),
    ("x=str_to_map(name,'(')", "with a backslash before a literal sign", r"x=str_to_map(name,'\(')"),
]


def filtered(text):
    source = StreamBuilder.data_stream("shop", "texts").from_file("in.jsonl", schema=SCHEMA)
    return source.filter_by_expression(text).to_print().build()


def scripted(text, **how):
    source = StreamBuilder.data_stream("shop", "texts").from_file("in.jsonl", schema=SCHEMA)
    return source.script(text, **how).to_print().build()


CASES = [(filtered, *case) for case in CONDITIONS] + [(scripted, *case) for case in SCRIPTS]


def _shown(value):
    """A part of the name of a test, the same in each process."""
    return getattr(value, "__name__", str(value)[:40])


@pytest.mark.parametrize(("build", "wrong", "words", "right"), CASES, ids=_shown)
def test_a_remedy_of_a_text_that_is_followed_to_the_letter_is_taken(build, wrong, words, right):
    with pytest.raises(TopologyError) as refused:
        build(wrong)
    assert words in refused.value.remedy
    assert build(right)


@pytest.mark.parametrize("right", ["x=trim(age)", "x='agee'"])
def test_a_word_that_is_no_field_is_refused_where_words_are_strict(right):
    with pytest.raises(TopologyError) as refused:
        scripted("x=agee", strict=True)
    assert "the fields are: name, age" in refused.value.remedy
    assert "write texts in quotes" in refused.value.remedy
    assert scripted(right, strict=True)


def test_each_remedy_of_the_files_that_these_texts_claim_is_printed_by_one():
    strict = partial(scripted, "x=agee", strict=True)
    assert unraised(THIS, [strict, *(partial(build, wrong) for build, wrong, *_ in CASES)]) == []
