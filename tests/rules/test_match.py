"""Rules over a stream in Spark: forms of rows, versions that come while it runs, and replays after a kill."""

import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from rs_assets import Rules, StreamBuilder
from rs_assets.errors import RsError, TopologyError
from rs_assets.expressions.rules import matched
from rs_assets.testing import PipelineDriver

SCHEMA = "k string, ms bigint"
RULES = [
    {"rule": "slow", "condition": "(ms,>,100)", "priority": 2, "severity": "low"},
    {"rule": "shell", "condition": r"(k,regex,'\.sh$')", "priority": 1, "severity": "high"},
    {"rule": "off", "condition": "(ms,>=,0)", "enabled": False, "severity": "low"},
]
ROWS = [{"k": "a.sh", "ms": 500}, {"k": "b", "ms": 1}, {"k": "c", "ms": 101}, {"k": None, "ms": None}]


def logs(job="rules"):
    return StreamBuilder.data_stream("test", job).from_file("in.jsonl", schema=SCHEMA)


def ran(driver, stream, *batches):
    with PipelineDriver(stream.to_print().build(), spark=driver) as running:
        for rows in batches:
            running.push(rows)
            running.step()
        return [{**row} for row in running.take()]


def test_rows_in_rows_with_the_rules_that_hold_out(driver):
    assert ran(driver, logs().match(Rules.of(RULES)), ROWS[:2], ROWS[2:]) == [
        {"k": "a.sh", "ms": 500, "rules": ["shell", "slow"], "rules_version": 1},
        {"k": "c", "ms": 101, "rules": ["slow"], "rules_version": 1},
    ]


def test_a_run_notes_which_rules_have_matched(driver, tmp_path):
    rules = Rules.of({"slow": "(ms,>,100)", "shell": r"(k,regex,'\.sh$')", "never": "(ms,<,0)"})
    home = tmp_path / "rs"
    with PipelineDriver(
        logs("noted").match(rules, name="judge").to_print().build(), spark=driver, home=home
    ) as running:
        running.push(ROWS)
        running.step()
    (root,) = home.rglob("noted/judge")
    (day,) = (root / matched.FOLDER).glob("2*")
    assert sorted(matched._names(day)) == ["shell", "slow"]
    assert sorted(matched._since(root)) == ["never", "shell", "slow"]


def test_forms_of_rows(driver):
    every = logs().match(Rules.of(RULES), form="all", into="hit", name="all")
    one = every.match(Rules.of(RULES), form="per_match", carry=["severity"], name="each")
    made = ran(driver, one, ROWS)
    assert [(row["k"], row["hit"], row["rule"], row["severity"]) for row in made] == [
        ("a.sh", ["shell", "slow"], "shell", "high"),
        ("a.sh", ["shell", "slow"], "slow", "low"),
        ("c", ["slow"], "slow", "low"),
    ]


def table_of(*rows):
    return pa.table({"rule": [name for name, _ in rows], "condition": [text for _, text in rows]})


def test_a_changed_table_is_taken_up_between_batches_and_bad_rules_stop_nothing(driver, tmp_path):
    path = str(tmp_path / "rules")
    write_deltalake(path, table_of(("slow", "(ms,>,100)")))
    with PipelineDriver(logs().match(Rules.from_delta(path), name="judge").to_print().build(), spark=driver) as running:
        running.push([{"k": "a", "ms": 200}])
        running.step()
        bad = [("typo", "(mss,>,1)"), ("text", "(ms,>"), ("same", "(ms,>,1)"), ("same", "(ms,>,2)")]
        write_deltalake(path, table_of(("fast", "(ms,<,300)"), *bad), mode="overwrite")
        running.reload("judge")
        running.push([{"k": "a", "ms": 200}])
        running.step()
        (trouble,) = running.report().warnings
        write_deltalake(path, table_of(), mode="overwrite")
        running.reload("judge")
        running.push([{"k": "a", "ms": 200}])
        running.step()
        made = [(row["rules"], row["rules_version"]) for row in running.take()]
        assert not running.report().warnings
    assert made == [(["slow"], 1), (["fast"], 2)]
    assert "'judge' are left out" in str(trouble)
    assert "and 2 more" in str(trouble)


def test_rules_without_a_name_are_reported(driver, tmp_path):
    path = str(tmp_path / "rules")
    write_deltalake(path, table_of((None, "(ms,>,1)"), ("", "(ms,>,1)"), ("slow", "(ms,>,100)")))
    with PipelineDriver(logs().match(Rules.from_delta(path), name="judge").to_print().build(), spark=driver) as running:
        running.push([{"k": "a", "ms": 200}])
        running.step()
        assert [row["rules"] for row in running.take()] == [["slow"]]
        (trouble,) = running.report().warnings
        assert "2 rules without a name" in str(trouble)
        write_deltalake(path, table_of(("slow", "(ms,>,100)")), mode="overwrite")
        running.reload("judge")
        assert not running.report().warnings


def test_rules_that_spark_has_deleted_with_deletion_vectors(driver, tmp_path):
    path = str(tmp_path / "rules")
    write_deltalake(path, table_of(("slow", "(ms,>,100)"), ("fast", "(ms,<,300)")))
    for change in (
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        f"DELETE FROM delta.`{path}` WHERE rule = 'slow'",
    ):
        driver.call(lambda spark, change=change: spark.sql(change).collect())
    assert [row["rules"] for row in ran(driver, logs().match(Rules.from_delta(path)), ROWS[:1])] == []
    assert [row["rules"] for row in ran(driver, logs("two").match(Rules.from_delta(path)), ROWS[1:2])] == [["fast"]]


def test_a_file_of_rules(driver, tmp_path):
    path = tmp_path / "rules.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in RULES))
    rules = Rules.from_file(path, columns="enabled boolean, priority int")
    assert [row["rules"] for row in ran(driver, logs().match(rules), ROWS)] == [["shell", "slow"], ["slow"]]


def test_a_stream_that_rules_cannot_read_is_refused_until_it_has_a_text(driver, tmp_path):
    path = tmp_path / "rules.jsonl"
    path.write_text(json.dumps({"rule": "a", "condition": "(k,isNotNull)"}) + "\n")
    times = StreamBuilder.data_stream("test", "times").from_file("in.jsonl", schema="at timestamp")
    with pytest.raises(RsError, match="(?s)no field that rules can read.*give the rules texts"):
        ran(driver, times.match(Rules.from_file(path)), [{"at": None}])
    text = times.with_fields(k="coalesce(cast(at as string), 'none')").match(Rules.from_file(path))
    assert [row["rules"] for row in ran(driver, text, [{"at": None}])] == [["a"]]


@pytest.mark.parametrize(
    ("rules", "settings", "why"),
    [
        ({"a": "(kk,=,1)"}, {}, "names the field 'kk'"),
        ({"a": "(ms,=,x)"}, {}, "not a number"),
        ({"a": "(length(k),>,1)"}, {}, "not calls"),
        ({"a": r"(k,regex,'[a&&b]')"}, {}, "class inside"),
        ({"a": "(ms,>,1)"}, {"into": "k"}, "'k'"),
        ({"a": "(ms,>,1)"}, {"form": "some"}, "one of: matched, all, per_match"),
        ({"a": "(ms,>,1)"}, {"carry": ["x"]}, "per_match"),
        ({"a": "(ms,>,1)"}, {"carry": ["x"], "form": "per_match"}, "they have: rule, condition"),
    ],
    ids=str,
)
def test_refusals(rules, settings, why):
    with pytest.raises(RsError, match=why):
        logs().match(Rules.of(rules), **settings).to_print().build()


def test_rules_that_are_none():
    for wrong in ([{"rule": "a"}], ["a"], [RULES[0], RULES[0]], {"": "(ms,>,1)"}):
        with pytest.raises(TopologyError):
            Rules.of(wrong)
    with pytest.raises(TopologyError, match="Rules.of"):
        logs().match({"a": "(ms,>,1)"})
