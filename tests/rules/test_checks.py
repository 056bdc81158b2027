"""The asset checks of rules, and the audit of their versions: facts made by hand, no Spark."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from rs_assets import Rules, StreamBuilder, build_definitions
from rs_assets.catalog.catalog import Catalog
from rs_assets.cli.main import main
from rs_assets.common.home import Home
from rs_assets.dagster.assets.checks import judges_of
from rs_assets.dagster.assets.rule_checks import RULE_CHECKS
from rs_assets.dagster.place import Place
from rs_assets.expressions.rules import matched, rule_set, scan
from rs_assets.expressions.rules.rule_set import stored
from rs_assets.operators.dimension.notes import DimensionNotes
from rs_assets.operators.dimension.versions import VersionStore

TYPES = {"k": "string", "ms": "bigint"}
LINES = StreamBuilder.data_stream("test", "checked").from_file("in.jsonl", schema="k string, ms bigint")
PIPELINE = LINES.match(Rules.from_delta("rules"), name="judge").to_delta("hits").build()


class World:
    """`judged` is a run whose batches use these rules."""

    def __init__(self, home):
        self.place = Place(home=home)
        self.root = home.dimension("test", "checked", "judge")
        self.notes = DimensionNotes(self.place.job(PIPELINE.topology) / "g0001" / "hits")

    def judged(self, batch, *conditions):
        table = pa.table({"rule": [f"r{n}" for n in range(len(conditions))], "condition": [*conditions]})
        self.notes.folder.mkdir(parents=True, exist_ok=True)
        version = VersionStore(self.root).add(table, ("rule",))
        stored(self.root, version.name, TYPES, step="judge")
        self.notes.note(batch, {"judge": version.name})
        return version

    def check(self, name):
        return RULE_CHECKS[name](PIPELINE.topology, "judge", self.place)


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(tmp_path / "rs"))
    return World(Home.default())


def test_a_rule_that_is_left_out_fails_a_check_until_it_is_corrected(world):
    assert world.check("no_rule_is_left_out").passed
    world.judged(0, "(ms,>,1)", "(mss,>,1)")
    failed = world.check("no_rule_is_left_out")
    assert (failed.passed, failed.description) == (
        False, "r1: step 'judge' names the field 'mss', which does not exist [step=judge]"
    )  # fmt: skip
    assert {name: failed.metadata[name].value for name in ("rules", "left_out")} == {"rules": 1, "left_out": 1}
    world.judged(7, "(ms,>,1)", "(ms,>,2)")
    assert world.check("no_rule_is_left_out").passed


def test_rules_that_cost_each_row_something_are_a_warning(world, monkeypatch):
    world.judged(0, "(ms,>,1)")
    assert world.check("rules_are_found_by_an_index").passed
    monkeypatch.setattr(scan, "hyperscan", lambda: None)
    patterns = [f"(k,regex,x{n})" for n in range(21)]
    world.judged(1, *patterns, *(f"(k,!=,{n})" for n in range(51)))
    failed = world.check("rules_are_found_by_an_index")
    assert not failed.passed
    assert "21 patterns searched one by one" in failed.description
    assert "51 alternatives only say what must not be" in failed.description


def test_a_rule_without_a_match_on_thirty_days_with_rows_is_a_warning(world, monkeypatch):
    """Days without rows do not count, nor those before the rule came; what matches again is no warning."""
    days = [f"2026-{month:02}-{day:02}" for month in (1, 2) for day in range(1, 29)]

    def judge(days, *held):
        for day in days:
            monkeypatch.setattr(matched, "today", lambda day=day: day)
            matched.note_rules(world.root, ["r0", "r1", *new])
            for _ in range(2):
                matched.note_matches(world.root, version.name, 3, np.array(held, np.int64), "r{}".format)

    version, new = world.judged(0, "(ms,>,1)", "(ms,>,2)", "(ms,>,3)"), []
    judge(days[:20], 0, 0)
    assert world.check("every_rule_matches_sometimes").passed
    new.append("r2")
    judge(days[20:30], 0)
    failed = world.check("every_rule_matches_sometimes")
    assert failed.description == "r1: no match on the last 30 days with rows; in use since 2026-01-01"
    assert failed.metadata["without_match"].value == 1
    judge(days[30:49], 1)
    assert world.check("every_rule_matches_sometimes").passed
    judge(days[49:], 1)
    assert "r2: no match" in world.check("every_rule_matches_sometimes").description
    assert len(list((world.root / matched.FOLDER).glob("2026-*"))) <= matched.DAYS + 1


def test_the_checks_are_of_the_asset_of_the_rules(world):
    """Two pipelines may use one table."""
    name = "no_rule_is_left_out_in_test_checked_judge"
    assert ("judge", name) in {(step, check) for step, check, _ in judges_of(PIPELINE.topology)}
    other = StreamBuilder.data_stream("test", "other").from_file("in.jsonl", schema="k string, ms bigint")
    second = other.match(Rules.from_delta("rules"), name="judge").to_delta("other_hits").build()
    writer = StreamBuilder.data_stream("test", "ruled").from_file("r.jsonl", schema="rule string, condition string")
    definitions = build_definitions([PIPELINE, second, writer.to_delta("rules").build()])
    specs = [
        spec for check in definitions.asset_checks for spec in check.check_specs if spec.name.startswith("no_rule")
    ]
    assert sorted(spec.name for spec in specs) == [name, "no_rule_is_left_out_in_test_other_judge"]
    assert len({spec.asset_key for spec in specs}) == 1
    definitions.get_repository_def()


def test_a_version_parses_only_the_rules_that_are_new(world, monkeypatch):
    texts = []
    inner = rule_set.formula_of
    monkeypatch.setattr(rule_set, "formula_of", lambda text, *a, **kw: texts.append(text) or inner(text, *a, **kw))
    world.judged(0, "(ms,>,1)", "(ms,>", "(ms,>,3)")
    rule_set._open.clear()
    world.judged(1, "(ms,>,1)", "(ms,>", "(ms,>,4)")
    assert sorted(texts[:3]) == sorted(["(ms,>,1)", "(ms,>", "(ms,>,3)"])
    assert texts[3:] == ["(ms,>,4)"]


def test_the_audit_names_the_version_of_each_batch(world, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "audited.py").write_text("from tests.rules.test_checks import PIPELINE\n")

    def told(*options):
        return CliRunner().invoke(main, ["rules", "checked", "-m", "audited", "--versions", *options]).output

    assert told() == "no batch has been judged yet\n"
    facts = {"pipeline": "test.checked", "generation": 1, "run_id": "r", "query": "hits", "step": "judge"}
    began = datetime(2026, 1, 1, tzinfo=UTC)
    for batch, version in ((0, world.judged(0, "(ms,>,1)")), (7, world.judged(7, "(ms,>,1)", "(ms,>,2)"))):
        row = {
            "at": began + timedelta(batch),
            "batch_id": batch,
            "version": version.name,
            "digest": version.digest,
            "rows": version.rows,
        }
        Catalog(world.place.home.catalog).append("dimensions", [{**facts, **row, "loaded_at": version.loaded_at}])
    assert [line.partition(", loaded")[0] for line in told().splitlines()] == [
        "version 1 from generation 1, batch 0 of hits: 1 rule",
        "version 2 from generation 1, batch 7 of hits: 2 rules",
    ]
    assert [(row["batch_id"], row["rows"]) for row in json.loads(told("--json"))] == [(0, 1), (7, 2)]
