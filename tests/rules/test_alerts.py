"""Windows of rules against a plain model: which alerts come, in which batch, and what is late."""

import json
import math
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from rs_assets import Rules, StreamBuilder, Time
from rs_assets.errors import RsError, TopologyError
from rs_assets.expressions.rules.having import having_of
from rs_assets.testing import PipelineDriver
from tests.operators.model import at

SCHEMA = "user string, host string, ms bigint, cost double, ts timestamp"
DELAY = 20
# Rules as the table has them, and as the model has them: the condition, the group, the seconds, the measure, enough.
MODEL = {
    "many": ("(ms,>,10)", "count > 4 within 1 minute by user", lambda row: (row["ms"] or 0) > 10,
             ("user",), 60, len, lambda value: value > 4),
    "hosts": ("(user,isNotNull)", "COUNT(DISTINCT host) >= 3 within 2 minutes by user", lambda row: row["user"],
              ("user",), 120, lambda rows: len({r["host"] for r in rows} - {None}), lambda value: value >= 3),
    "cost": ("(ms,>=,0)", "sum(cost)>7.5 within 90 seconds", lambda row: row["ms"] is not None and row["ms"] >= 0,
             (), 90, lambda rows: sum(max(r["cost"], 0) for r in rows if r["cost"] is not None
                                      and not math.isnan(r["cost"])), lambda value: value > 7.5),
    "peak": ("(host,=,a)", "max(ms) >= 38 within 30 seconds by host, user", lambda row: row["host"] == "a",
             ("host", "user"), 30, lambda rows: max((r["ms"] for r in rows if r["ms"] is not None), default=None),
             lambda value: value is not None and value >= 38),
    "dip": ("(host,=,b)", "min(`ms`) < 3 within 1 minutes by user", lambda row: row["host"] == "b",
            ("user",), 60, lambda rows: min((r["ms"] for r in rows if r["ms"] is not None), default=None),
            lambda value: value is not None and value < 3),
}  # fmt: skip
RULES = [{"rule": name, "condition": row[0], "having": row[1], "severity": name[0]} for name, row in MODEL.items()]
PLAIN = {"rule": "plain", "condition": "(ms,>,0)", "having": None, "severity": "p"}


def logs(job="alerts"):
    return StreamBuilder.data_stream("test", job).from_file("in.jsonl", schema=SCHEMA)


def drawn(count, seed):
    """Rows in disorder, some of them far behind."""
    dice, now, rows = Random(seed), 0, []
    for _ in range(count):
        now += dice.randint(0, 6)
        back = dice.choice([0, 0, 0, dice.randint(0, DELAY), dice.randint(0, 200)])
        rows.append({
            "user": dice.choice(["ann", "bob", "größe", None]),
            "host": dice.choice(["a", "b", "c", None]),
            "ms": dice.choice([None, *range(40)]),
            "cost": dice.choice([None, -3.0, math.nan, 0.5, 2.25]),
            "ts": at(now - back),
        })  # fmt: skip
    return rows


class Model:
    """Alerts of batches one after another. A match is late once the watermark before its batch passed its window."""

    def __init__(self):
        self.windows, self.fired, self.late, self.newest = defaultdict(list), set(), 0, None

    def batch(self, rows):
        watermark = None if self.newest is None else self.newest - timedelta(seconds=DELAY)
        touched = set()
        for row in rows:
            for name, (_, _, holds, by, seconds, _, _) in MODEL.items():
                if holds(row):
                    begun = math.floor(row["ts"].timestamp() / seconds) * seconds
                    key = (name, tuple((field, row[field]) for field in by), begun)
                    if watermark is not None and datetime.fromtimestamp(begun + seconds, UTC) <= watermark:
                        self.late += 1
                    else:
                        self.windows[key].append(row)
                        touched.add(key)
            if self._hit(row):
                self.newest = max(filter(None, (self.newest, row["ts"])))
        found = []
        for key in touched - self.fired:
            _, _, _, _, _, measure, enough = MODEL[key[0]]
            value = measure(self.windows[key])
            if enough(value):
                self.fired.add(key)
                found.append((*key, float(value)))
        return sorted(found, key=repr)

    @staticmethod
    def _hit(row):
        """Matches of a rule without a window move time as well."""
        return (row["ms"] or 0) > 0 or any(holds(row) for _, _, holds, *_ in MODEL.values())


def shown(rows):
    return sorted(((row["rule"], tuple(row["by"].items()), int(row["start_time"].timestamp()), row["value"])
                   for row in rows), key=repr)  # fmt: skip


def alerts(rules, **settings):
    hits = logs().match(rules, form="per_match", carry=["having", "severity"], name="judge")
    return hits.alerts("ts", carry=["severity", "rule_version"], water_mark=Time.seconds(DELAY), **settings)


def test_a_rule_with_another_window_is_taken_up_and_bad_ones_are_reported(driver, tmp_path):
    """Neither a restart nor another state: what a rule says is data. Late matches are kept if a table is named."""
    table = tmp_path / "rules.jsonl"

    def written(*rows):
        fresh = table.with_suffix(".new")
        fresh.write_text("".join(json.dumps(row) + "\n" for row in rows))
        fresh.rename(table)

    first = {"rule": "two", "condition": "(ms,>,1)", "having": "count >= 2 within 1 minute"}
    written(first)
    rules = Rules.from_file(table, columns="having string, severity string")
    with PipelineDriver(alerts(rules, late_to="late_hits").to_print(name="seen").build(), spark=driver) as running:
        row = {"user": "ann", "ms": 5, "ts": at(1)}
        running.push([row])
        running.step()
        other = {"rule": "three", "condition": "(ms,>,1)", "having": "count >= 3 within 1 hour by user"}
        bad = [{"rule": f"bad{n}", "condition": "(ms,>,1)", "having": text} for n, text in enumerate(BAD)]
        written(first, other, *bad)
        running.reload()
        assert "3 more" in str(running.report().warnings)
        running.push([row, row])
        running.step()
        assert [(each["rule"], each["value"], each["rule_version"]) for each in running.take("seen")] == [
            ("two", 3.0, 2)
        ]
        running.push([row, row, {**row, "ts": at(4000)}])
        running.step()
        assert [(each["rule"], each["by"]) for each in running.take("seen")] == [("three", {"user": "ann"})]
        running.push([row])
        running.step()
        assert not running.take("seen")
        assert running.report().rows_late == 2


BAD = ["count > 3", "sum(user) > 3 within 1 day", "count >= 2 within 1 minute by nobody", "count >= 0 within 1 hour"]


@pytest.mark.parametrize("seed", range(2))
def test_alerts_should_be_those_of_a_plain_model_in_each_batch(driver, seed):
    """Random rows cut into random batches, with a restart between two of them."""
    rows, dice, model = drawn(160, seed), Random(seed), Model()
    cuts = sorted(dice.sample(range(1, len(rows)), 4))
    batches = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    wanted, made, late = [], [], 0
    with PipelineDriver(alerts(Rules.of([*RULES, PLAIN])).to_print().build(), spark=driver) as running:
        for number, batch in enumerate(batches):
            running.push(batch)
            running.step()
            taken = running.take()
            assert all(row["severity"] == row["rule"][0] and row["rule_version"] == 1 for row in taken)
            made.append(shown(taken))
            wanted.append(model.batch(batch))
            if number == 2:
                late += running.report().rows_late
                running.restart()
        running.finish()
        assert not running.take()
        late += running.report().rows_late
    assert made == wanted
    assert sum(map(len, made)) > 10
    assert {name for batch in made for name, *_ in batch} == set(MODEL)
    assert late == model.late > 0


WRONG = [
    "", "count >= 3 within 0 minutes", "count < 3 within 1 minute", "min(ms) > 1 within 1 minute", "avg(ms) > 1",
    "count > 3 within 1 week", "max(ms) <= 1 within 1 hour", "sum(x) >= 0 within 1 hour", "count > 1 within 1 hour by",
    "count(distinct) > 1 within 1 hour", "count > x within 1 hour", "avg(ms) > 1 within 1 hour",
]  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_reached_once_is_refused(text):
    with pytest.raises(RsError, match="remedy: write it as: count >= 10 within 5 minutes by user"):
        having_of(text)


def test_what_is_enough_is_included():
    said = {"count > 2.5": 3.0, "count(*)>=2": 2.0, "count(DISTINCT x) > 4": 5.0, "max(x) > 1": math.nextafter(1, 2),
            "min(x)<-1": math.nextafter(-1, -2), "sum(x)>1e3": math.nextafter(1000, 2000)}  # fmt: skip
    assert {text: having_of(f"{text} WITHIN 2 Days BY `a b`, c").limit for text in said} == said
    assert having_of("max(x) >= 1 within 2 days by `a b`, c, c").by == ("a b", "c")


# What is refused, what its remedy says, and the same with the remedy.
FOLLOWED = {
    "no having": (
        lambda: logs().match(Rules.of(RULES), form="per_match").alerts("ts"),
        "form='per_match', carry=",
        lambda: logs().match(Rules.of(RULES), form="per_match", carry=["having"]).alerts("ts"),
    ),
    "twice": (
        lambda: logs().match(Rules.of(RULES), form="per_match", carry=["having"]).alerts("ts", carry="value"),
        "leave it out of carry=",
        lambda: logs().match(Rules.of(RULES), form="per_match", carry=["having"]).alerts("ts"),
    ),
    "words": (
        lambda: logs().match(Rules.of([{**RULES[0], "having": "10 logins"}])),
        "count >= 10 within 5 minutes by user",
        lambda: logs().match(Rules.of([{**RULES[0], "having": "count >= 10 within 5 minutes by user"}])),
    ),
    "text": (
        lambda: logs().match(Rules.of([{**RULES[0], "having": "sum(user) > 1 within 1 day"}])),
        "user='try_cast(user as double)'",
        lambda: logs().with_fields(user="try_cast(user as double)").match(
            Rules.of([{**RULES[0], "having": "sum(user) > 1 within 1 day"}])
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_remedy_that_is_followed_is_taken(name):
    refused, remedy, followed = FOLLOWED[name]
    with pytest.raises(TopologyError) as error:
        refused().to_print().build()
    assert remedy in str(error.value)
    followed().to_print().build()
