"""Each function gives what its golden rows say: all rows of a family in one select."""

from __future__ import annotations

import datetime as dt
import math

import pytest

from rs_assets.expressions.functions.registry import FAMILIES, FUNCTIONS
from rs_assets.expressions.script.parse import parse_script
from rs_assets.expressions.syntax.bind import Scope, bind

EVERY = [function for table in FAMILIES for function in table]
EXAMPLES = {
    family: [each for function in EVERY if function.family == family for each in function.examples]
    for family in dict.fromkeys(function.family for function in EVERY)
}


def sql_of(call, zone="UTC", fields=None):
    [statement] = parse_script(f"x={call}")
    return bind(statement.value, Scope(call, "golden", fields or {}, zone)).text


def same(found, wanted):
    if isinstance(wanted, float):
        return isinstance(found, float) and (math.isclose(found, wanted) or (math.isnan(found) and math.isnan(wanted)))
    return found == wanted and isinstance(found, bool) == isinstance(wanted, bool)


@pytest.mark.parametrize("family", EXAMPLES)
def test_should_give_what_the_golden_rows_say(family, driver):
    examples = EXAMPLES[family]
    selected = [f"{sql_of(each.call)} as r{number}" for number, each in enumerate(examples)]
    [row] = driver.call(lambda spark: spark.sql(f"select {', '.join(selected)}").collect())
    pairs = zip(examples, row, strict=True)
    assert not [(each.call, found, each.result) for each, found in pairs if not same(found, each.result)]


def test_should_take_times_in_the_zone_of_the_script(driver):
    golden = {
        "fromunixtime(1505404800)": "2017-09-15 00:00:00",
        "fromunixtime(1505404800,'MMdd-yyyy')": "0915-2017",
        "unixtimestamp('2017-09-15 00:00:00')": 1505404800,
        "date_format('2017-09-15 00:00:00','HH')": "00",
    }
    selected = ", ".join(sql_of(call, "Asia/Shanghai") for call in golden)
    [row] = driver.call(lambda spark: spark.sql(f"select {selected}").collect())
    assert list(row) == list(golden.values())


def test_should_take_moments_for_what_they_are_in_every_zone(driver):
    golden = {
        "unixtimestamp(at)": 1505404800,
        "unixtimestamp('2017-09-14T16:00:00Z')": 1505404800,
        "unixtimestamp(to_timestamp('2017-09-15 00:00:00'))": 1505404800,
        "tochar(at)": "2017-09-15 00:00:00",
        "coalesce(at,at)": "2017-09-14T16:00:00+00:00",
        "equal(at,'2017-09-15 00:00:00')": True,
        "less(at,'2017-09-15')": False,
    }
    selected = ", ".join(sql_of(call, "Asia/Shanghai", {"at": "timestamp"}) for call in golden)
    moment = "timestamp '2017-09-14 16:00:00Z' as at"
    [row] = driver.call(lambda spark: spark.sql(f"select {selected} from (select {moment})").collect())
    found = [v.astimezone(dt.UTC).isoformat() if isinstance(v, dt.datetime) else v for v in row]
    assert dict(zip(golden, found, strict=True)) == golden


def test_should_take_texts_with_a_zone_for_moments_in_every_zone(driver):
    golden = {
        "hour('2026-01-05T20:00:00Z')": 4,
        "date_format('2026-01-05T20:00:00Z','dd HH')": "06 04",
        "addDay('2026-01-05T20:00:00Z',1)": "2026-01-07 04:00:00",
        "timestampdiff('minute','2026-01-05T20:00:00Z','2026-01-06 04:01:00')": 1,
        "unixtimestamp(cast('2026-01-06 04:00:00','timestamp'))": 1767643200,
        "unixtimestamp(cast('2026-01-05T20:00:00Z','timestamp'))": 1767643200,
        "unixtimestamp(cast(at,'timestamp'))": 1767643200,
        "equal(at,'2026-01-05T20:00:00Z')": True,
        "equal(at,'2026-01-06 04:00:00')": True,
    }
    selected = ", ".join(sql_of(call, "Asia/Shanghai", {"at": "timestamp"}) for call in golden)
    moment = "timestamp '2026-01-05 20:00:00Z' as at"
    [row] = driver.call(lambda spark: spark.sql(f"select {selected} from (select {moment})").collect())
    assert dict(zip(golden, row, strict=True)) == golden


def test_should_give_the_date_of_a_moment_in_the_zone_of_the_script(driver):
    """A text with a zone of its own, a field of times, an item of a list: all are the same moment."""
    calls = {
        "to_date(X)": dt.date(2026, 2, 1),
        "cast(X,'date')": dt.date(2026, 2, 1),
        "date_add(X,1)": "2026-02-02",
        "date_sub(X,1)": "2026-01-31",
        "lastday(X)": "2026-02-28",
        "nextday(X,'sunday')": "2026-02-08",
        "dateDiff(X,'2026-01-31')": 1,
        "dateDiff('2026-01-31',X)": -1,
        "date_add(lastday(addHour(X,0)),1)": "2026-03-01",
    }
    moments = ("'2026-01-31T20:00:00Z'", "'2026-01-31 15:00:00-05:00'", "at", "get(ats,0)", "element_at(named,'k')")
    golden = {call.replace("X", moment): value for call, value in calls.items() for moment in moments}
    fields = {"at": "timestamp", "ats": "array<timestamp>", "named": "map<string,timestamp>"}
    selected = ", ".join(sql_of(call, "Asia/Shanghai", fields) for call in golden)
    moment = "timestamp '2026-01-31 20:00:00Z'"
    given = f"{moment} as at, array({moment}) as ats, map('k', {moment}) as named"
    [row] = driver.call(lambda spark: spark.sql(f"select {selected} from (select {given})").collect())
    assert dict(zip(golden, row, strict=True)) == golden


def test_should_give_the_date_of_a_text_with_a_zone_in_utc_without_a_zone_of_the_script(driver):
    golden = {
        "day('2026-01-31T23:00:00-05:00')": 1,
        "lastday('2026-01-31T23:00:00-05:00')": "2026-02-28",
        "to_date('2026-01-31T23:00:00-05:00')": dt.date(2026, 2, 1),
        "to_date('2026-01-31 and more')": dt.date(2026, 1, 31),
        "to_date('2026-01-31T23:00:00 Mars/City')": dt.date(2026, 1, 31),
    }
    [row] = driver.call(lambda spark: spark.sql(f"select {', '.join(map(sql_of, golden))}").collect())
    assert dict(zip(golden, row, strict=True)) == golden


def test_should_write_moments_among_texts_as_local_times(driver):
    golden = {
        "coalesce(at,'never')": "2026-02-01 04:00:00",
        "if(1<2,at,'never')": "2026-02-01 04:00:00",
        "nvl2(at,at,'never')": "2026-02-01 04:00:00",
        "tochar(array_first(array_sort(ats)))": "2026-02-01 04:00:00",
        "unixtimestamp(array_max(ats))": 1769889600,
    }
    fields = {"at": "timestamp", "ats": "array<timestamp>"}
    selected = ", ".join(sql_of(call, "Asia/Shanghai", fields) for call in golden)
    moment = "timestamp '2026-01-31 20:00:00Z'"
    given = f"{moment} as at, array({moment}) as ats"
    [row] = driver.call(lambda spark: spark.sql(f"select {selected} from (select {given})").collect())
    assert dict(zip(golden, row, strict=True)) == golden


def test_should_take_moments_of_the_hour_that_comes_twice_for_what_they_are(driver):
    """In Berlin 2026-10-25 02:30 is 00:30 and 01:30 in UTC."""
    golden = {
        "unixtimestamp(at)": 1792891800,
        "curstamp(at)": 1792891800250,
        "unixtimestamp(to_timestamp(at))": 1792891800,
    }
    selected = ", ".join(sql_of(call, "Europe/Berlin", {"at": "timestamp"}) for call in golden)
    moment = "timestamp '2026-10-25 01:30:00.250Z' as at"
    [row] = driver.call(lambda spark: spark.sql(f"select {selected} from (select {moment})").collect())
    assert list(row) == list(golden.values())


def test_should_take_a_field_with_the_short_name_of_a_variable(driver):
    golden = {
        "in_max(doc,item)": "9",
        "json_values(doc,item)": ["9", "10"],
        "array_remove(splitToArray('b,a,b',','),each)": ["a"],
    }
    selected = ", ".join(sql_of(call, fields=dict.fromkeys(("doc", "item", "each"), "string")) for call in golden)
    given = """'[{"a":"9"},{"a":"10"}]' as doc, 'a' as item, 'b' as each"""
    [row] = driver.call(lambda spark: spark.sql(f"select {selected} from (select {given})").collect())
    assert list(row) == list(golden.values())


def test_every_function_has_a_golden_row_and_a_sentence():
    for function in EVERY:
        assert function.examples, function.signature
        assert function.doc.endswith("."), function.signature


def test_no_two_functions_answer_to_one_call():
    for name, overloads in FUNCTIONS.items():
        for arity in range(8):
            assert sum(each.accepts(arity) for each in overloads) <= 1, (name, arity)
