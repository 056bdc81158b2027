"""What Dagster says of an asset, in words for who has never seen the pipeline."""

import pytest

from rs_assets import StreamBuilder, Time
from rs_assets.compile.planner.table import COMPILE
from rs_assets.dagster.assets.descriptions import SENTENCES, describe_step
from rs_assets.dagster.assets.roles import ROLE_OF
from rs_assets.topology.nodes.dim_join import DimJoin
from rs_assets.topology.nodes.match import MatchRules

CLICKS = "page string, gone boolean, ts timestamp"


def stream():
    return StreamBuilder.data_stream("shop", "words").from_file("clicks.csv", schema=CLICKS, name="clicks")


def end(made):
    """The last step of a pipeline."""
    return made.build().topology.sinks[-1]


def test_every_kind_of_step_that_is_an_asset_has_a_sentence():
    assert set(SENTENCES) == {kind for kind in COMPILE if kind.family in ROLE_OF} | {DimJoin, MatchRules}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "Appends rows to the Delta table `pages`."),
        (
            {"mode": "upsert", "keys": ["page", "ts"], "deletes": "gone"},
            "Keeps one row for each `page`, `ts` in the Delta table `pages`; a row whose `gone` is true deletes it.",
        ),
        ({"partition_by": ["page"]}, "Appends rows to the Delta table `pages`, partitioned by `page`."),
    ],
)
def test_a_table_is_told_by_what_it_holds(options, said):
    assert describe_step(end(stream().to_delta("pages", **options))) == said


def test_sources_state_and_sinks_are_sentences_too():
    made = stream().distinct("page", within=Time.minutes(1), time_field="ts", name="once").to_file("out").build()
    assert [describe_step(node) for node in made.topology] == [
        "Reads the CSV of `clicks.csv`.",
        "Passes on the first row of each `page`, and remembers it for 0:01:00.",
        "Writes rows as JSON lines below `out`.",
    ]
