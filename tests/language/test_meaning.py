"""What a script means where it could mean something else."""

from __future__ import annotations

from decimal import Decimal

import pytest

from rs_assets.expressions.condition.parse import parse_condition
from rs_assets.expressions.script.bind import bound_script
from rs_assets.expressions.script.parse import parse_script
from rs_assets.expressions.syntax.place import LanguageError
from rs_assets.expressions.syntax.tree import Both, Compare, Not, Word

FIELDS = {"name": "string", "age": "int", "Town": "string"}


def value_of(text):
    [statement] = parse_script(f"x={text}")
    return statement.value


def test_should_negate_a_whole_comparison():
    assert isinstance(value_of("!age>1"), Not)
    assert isinstance(value_of("!age>1").part, Compare)
    assert value_of("!a&b||c") == Both("|", (Both("&", (Not(Word("a")), Word("b"))), Word("c")))


@pytest.mark.parametrize("text", ["rename(_rs_line,name)", "rename(town,name)", "rename(AGE,name)"])
def test_should_not_rename_a_field_to_a_name_that_another_has(text):
    with pytest.raises(LanguageError, match="choose another name"):
        bound_script(text, FIELDS, step="script")


@pytest.mark.parametrize("text", ["x=age-name", "x=age.years"])
def test_should_not_take_what_looks_like_arithmetic_for_a_text(text):
    with pytest.raises(LanguageError, match="but 'age'"):
        bound_script(text, FIELDS, step="script")
    assert bound_script("x=no-field;y='age-name'", FIELDS, step="script")


def test_should_change_the_case_of_a_name():
    assert "NAME" in dict(bound_script("rename(NAME,name)", FIELDS, step="script").fields)


def test_should_show_where_too_many_signs_stand():
    with pytest.raises(LanguageError, match="line 1, column 3"):
        parse_script(f"x={'!' * 5000}a")
    with pytest.raises(LanguageError, match="line 1, column 1"):
        parse_condition(f"{'! ' * 5000}(a,=,1)")


def test_should_compare_long_numbers_in_texts_as_they_are(source, compute):
    text = "same=id==9007199254740993;more=id>9007199254740992;other=id!=18;some=id>18"
    rows = compute(source("id string").script(text), [{"id": "9007199254740992"}, {"id": "18.5"}, {"id": "x"}])
    found = [[row[name] for name in ("same", "more", "other", "some")] for row in rows]
    assert found == [[False, False, True, True], [False, False, True, True], [False, False, True, False]]


def test_should_compare_fields_of_numbers_with_all_of_their_digits(source, compute):
    """Spark rounds one of two numbers that need more than 38 digits together."""
    text = "same=whole==part;other=whole!=part;less=whole<part;most=whole>=part;long=n==longer"
    stream = source("whole decimal(38,0), part decimal(38,10), n bigint, longer decimal(38,20)").script(text)
    pairs = [("1", "1.0000000001"), ("-1", "-1.0000000001"), ("7", "7"), (None, None), (None, "1"), ("-1", "-0.5")]
    names = ("whole", "part")
    given = [{name: value and Decimal(value) for name, value in zip(names, pair, strict=True)} for pair in pairs]
    rows = compute(stream, [{**row, "n": 1, "longer": Decimal("1.00000000000000000001")} for row in given])
    assert [[row[name] for name in ("same", "other", "less", "most", "long")] for row in rows] == [
        [False, True, True, False, False],
        [False, True, False, True, False],
        [True, False, False, True, False],
        [True, False, False, False, False],
        [False, True, False, False, False],
        [False, True, True, False, False],
    ]
