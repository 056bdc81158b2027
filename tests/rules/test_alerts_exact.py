"""Windows of rules over decimals and times, against rows that are looked at one by one in plain Python."""

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random

import pytest

from rs_assets import Rules, StreamBuilder, Time
from rs_assets.errors import RsError, TopologyError
from rs_assets.expressions.rules.having import having_of
from rs_assets.testing import PipelineDriver
from tests.operators.model import at

SCHEMA = "user string, price decimal(20,2), rate decimal(10,4), day date, due timestamp, ts timestamp"
DUE = datetime(2026, 1, 1, tzinfo=UTC)
# Near the limits; doubles cannot distinguish some of them, or add them to another sum.
PRICES = [None, *map(Decimal, ["0.10", "0.70", "-1.00", "9007199254740993.00", "9007199254740993.01"])]
RATES = [None, *map(Decimal, ["0.0001", "0.0000", "-0.0001"])]
DAYS = [None, date(1969, 12, 31), date(1970, 1, 1), date(2026, 1, 1)]
DUES = [None, *(DUE + timedelta(microseconds=n) for n in (0, 1, 2))]
# What rules say, and as the model has it: the groups, the seconds, the field, the measure, and what is enough.
MODEL = {
    "sum(price) >= 0.8 within 1 minute by user": (("user",), 60, "price", "sum", lambda v: v >= Decimal("0.8")),
    "sum(price) > 9007199254740993.01 within 90 seconds": (
        (), 90, "price", "sum", lambda v: v > Decimal("9007199254740993.01")),
    "max(price) > 9007199254740993 within 30 seconds by user": (
        ("user",), 30, "price", "max", lambda v: v > 9007199254740993),
    "min(rate) < 0.00005 within 1 minute by user, day": (
        ("user", "day"), 60, "rate", "min", lambda v: v < Decimal("0.00005")),
    "min(rate) <= -0.00011 within 1 hour": ((), 3600, "rate", "min", lambda v: v <= Decimal("-0.00011")),
    "max(due) > '2026-01-01 00:00:00.000001' within 1 minute by day": (
        ("day",), 60, "due", "max", lambda v: v > DUE + timedelta(microseconds=1)),
    "min(day) < '1970-01-01' within 2 minutes by price": (
        ("price",), 120, "day", "min", lambda v: v < date(1970, 1, 1)),
    "count(distinct price) >= 3 within 2 minutes by user": (("user",), 120, "price", "distinct", lambda v: v >= 3),
    "count(distinct due) > 1 within 1 minute by rate": (("rate",), 60, "due", "distinct", lambda v: v > 1),
}  # fmt: skip
MEASURES = {
    "sum": lambda values: sum(max(value, Decimal(0)) for value in values),
    "max": max,
    "min": min,
    "distinct": lambda values: len(set(values)),
}


def logs(schema=SCHEMA):
    return StreamBuilder.data_stream("test", "exact").from_file("in.jsonl", schema=schema)


def alerts(*texts):
    rules = Rules.of([{"rule": text, "condition": "(user,isNotNull)", "having": text} for text in texts])
    return logs().match(rules, form="per_match", carry=["having"]).alerts("ts", water_mark=Time.seconds(20))


def drawn(count, seed):
    dice = Random(seed)
    return [
        {"user": dice.choice("ab"), "price": dice.choice(PRICES), "rate": dice.choice(RATES), "day": dice.choice(DAYS),
         "due": dice.choice(DUES), "ts": at(n)}
        for n in range(count)
    ]  # fmt: skip


def number(value):
    """A value as alerts have it: a time as seconds since 1970."""
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1)
    return float((value - date(1970, 1, 1)).days * 86400 if isinstance(value, date) else value)


def shown(value):
    """A value of a group."""
    return value if value is None else str(value)


def alerted(row):
    return row["rule"], tuple(row["by"].items()), int(row["start_time"].timestamp()), row["value"]


class Model:
    """The alerts of batches one after another."""

    def __init__(self):
        self.windows, self.fired = defaultdict(list), set()

    def batch(self, rows):
        touched = set()
        for row in rows:
            for text, (by, seconds, field, _, _) in MODEL.items():
                begun = int(row["ts"].timestamp()) // seconds * seconds
                key = (text, tuple((name, shown(row[name])) for name in by), begun)
                touched.add(key)
                if row[field] is not None:
                    self.windows[key].append(row[field])
        found = []
        for key in touched - self.fired:
            *_, measure, enough = MODEL[key[0]]
            values = self.windows[key]
            if values and enough(value := MEASURES[measure](values)):
                self.fired.add(key)
                found.append((*key, number(value)))
        return sorted(found, key=repr)


def test_alerts_of_decimals_and_times_are_those_of_rows_one_by_one(driver):
    rows, dice, model, made, wanted = drawn(150, 5), Random(5), Model(), [], []
    cuts = sorted(dice.sample(range(1, len(rows)), 3))
    with PipelineDriver(alerts(*MODEL).to_print().build(), spark=driver) as running:
        for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            running.push(rows[begin:end])
            running.step()
            made.append(sorted(map(alerted, running.take()), key=repr))
            wanted.append(model.batch(rows[begin:end]))
    assert made == wanted
    assert {text for batch in made for text, *_ in batch} == set(MODEL) - {"min(rate) <= -0.00011 within 1 hour"}


def test_both_zeros_are_one_value_and_one_group(driver):
    says = ["count(distinct v) > 1 within 1 minute", "count >= 2 within 1 minute by v"]
    rules = Rules.of([{"rule": text, "condition": "(user,isNotNull)", "having": text} for text in says])
    stream = logs("user string, v double, ts timestamp").match(rules, form="per_match", carry=["having"])
    with PipelineDriver(stream.alerts("ts", water_mark=Time.seconds(20)).to_print().build(), spark=driver) as running:
        running.push([{"user": "a", "v": v, "ts": at(n)} for n, v in enumerate([0.0, -0.0])])
        running.step()
        assert [(row["rule"], row["by"], row["value"]) for row in running.take()] == [(says[1], {"v": "0.0"}, 2.0)]


# What is said of bigints beyond 2^53, and whether the rows of the test are enough.
EDGE = 2**53
WHOLE = {
    f"sum(n) > {EDGE + 4} within 1 minute by user": True,
    f"sum(n) >= {EDGE + 6} within 1 minute by user": False,
    f"max(n) > {EDGE + 2} within 1 minute": True,
    f"max(n) >= {EDGE + 4} within 1 minute": False,
    f"min(n) < {-EDGE} within 1 minute": True,
    f"min(n) <= {-EDGE - 2} within 1 minute": False,
}


@pytest.mark.parametrize("schema", ["n bigint", "n bigint, price decimal(20,2)"])
def test_alerts_of_bigints_above_2_53_have_all_digits(driver, schema):
    rules = Rules.of([{"rule": text, "condition": "(user,isNotNull)", "having": text} for text in WHOLE])
    stream = logs(f"user string, {schema}, ts timestamp").match(rules, form="per_match", carry=["having"])
    made = stream.alerts("ts", water_mark=Time.seconds(20)).to_print().build()
    with PipelineDriver(made, spark=driver) as running:
        running.push([{"user": "a", "n": n, "ts": at(0)} for n in (EDGE + 3, 1, 1, -EDGE - 1)])
        running.step()
        assert {row["rule"] for row in running.take()} == {text for text, enough in WHOLE.items() if enough}


# One value is within 38 digits, with 2 places; 150 of it are not.
MOST = Decimal("9" * 36)
LARGE = {
    "sum(n) >= 3 within 1 minute": True,
    f"sum(n) >= {MOST} within 1 minute": True,
    f"sum(n) > {'9' * 40} within 1 minute": False,
    "max(n) > 5 within 1 minute": True,
}


@pytest.mark.parametrize("cuts", [1, 3])
def test_a_sum_of_decimals_beyond_38_digits_is_enough(driver, cuts):
    rules = Rules.of([{"rule": text, "condition": "(user,isNotNull)", "having": text} for text in LARGE])
    stream = logs("user string, n decimal(36,0), p decimal(9,2), ts timestamp")
    stream = stream.match(rules, form="per_match", carry=["having"]).alerts("ts", water_mark=Time.seconds(20))
    with PipelineDriver(stream.to_print().build(), spark=driver) as running:
        for _ in range(cuts):
            running.push([{"user": "a", "n": MOST, "ts": at(1)}] * 150)
            running.step()
        made = {row["rule"]: row["value"] for row in running.take()}
    assert set(made) == {text for text, enough in LARGE.items() if enough}
    assert made["sum(n) >= 3 within 1 minute"] == pytest.approx(150 * float(MOST))


# A `having` over SCHEMA and an array, words of its remedy, and what they say to write.
REFUSED = [
    ("max(due) > 3 within 1 day", "write a time: max(due) >= '2026-01-31 23:59:59'",
     "max(due) >= '2026-01-31 23:59:59' within 1 day"),
    ("min(day) < 3 within 1 day", "min(day) <= '2026-01-31 23:59:59'",
     "min(day) <= '2026-01-31 23:59:59' within 1 day"),
    ("sum(due) > 3 within 1 day", "max(due), min(due) or count(distinct due)", "count(distinct due) > 3 within 1 day"),
    ("max(price) > '2026-01-01' within 1 day", "max(f) with > or >=", "max(price) > 1 within 1 day"),
    ("max(due) > '2026-13-01' within 1 day", "a time in quotes, as '2026-01-31 23:59:59'",
     "max(due) > '2026-01-31 23:59:59' within 1 day"),
    ("count(distinct parts) > 3 within 1 day", "parts='cast(parts as string)'", None),
    ("count > 3 within 1 day by user, parts", "parts='cast(parts as string)'", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words", "right"), REFUSED)
def test_having_of_another_type_is_refused_with_a_remedy_that_works(text, words, right):
    def matched(text, **casts):
        stream = logs(f"{SCHEMA}, parts array<string>")
        stream = stream.with_fields(**casts) if casts else stream
        return stream.match(Rules.of([{"rule": "r", "condition": "(user,isNotNull)", "having": text}]))

    with pytest.raises(TopologyError) as error:
        matched(text).to_print().build()
    assert words in error.value.remedy
    matched(right or text, **({} if right else {"parts": "cast(parts as string)"})).to_print().build()


def test_limit_of_a_decimal_is_the_first_that_is_enough():
    limits = {
        "sum(x) > 0.125": Decimal("0.13"), "sum(x) >= 0.13": Decimal("0.13"), "max(x) > 0.13": Decimal("0.14"),
        "min(x) < -0.125": Decimal("-0.13"), "min(x) < -0.13": Decimal("-0.14"), "max(x) > 1e400": None,
        "min(x) < -1e400": None, "max(x) >= -1e400": Decimal(f"-{'9' * 36}.99"),
    }  # fmt: skip
    assert {text: having_of(f"{text} within 1 day").limit_of(2) for text in limits} == limits


def test_rule_of_a_table_that_compares_a_time_with_a_number_is_left_out_and_said(driver, tmp_path):
    table = tmp_path / "rules.jsonl"
    table.write_text('{"rule": "r", "condition": "(user,isNotNull)", "having": "max(due) > 3 within 1 day"}\n')
    rules = Rules.from_file(table, columns="having string")
    made = logs().match(rules, form="per_match", carry=["having"]).alerts("ts", water_mark=Time.seconds(20))
    with PipelineDriver(made.to_print().build(), spark=driver) as running:
        running.push(drawn(3, 1))
        running.step()
        assert "is a time, and is compared with a number" in str(running.report().warnings)
        assert not running.take()
    with pytest.raises(RsError, match="not a time"):
        having_of("max(due) > 'soon' within 1 day")
