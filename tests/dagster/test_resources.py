"""The families' resources of a code location: from where it was built, and from the Launchpad."""

from __future__ import annotations

from datetime import timedelta

import pytest
from dagster import AssetKey

from rs_assets import (
    JoinResource,
    MemoryChannel,
    ShuffleResource,
    SparkResource,
    StreamBuilder,
    WindowResource,
    build_definitions,
)
from rs_assets.dagster.assets.graph import pipeline_graph
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.runs import runtime
from rs_assets.errors import ConfigurationError


def pipeline():
    return StreamBuilder.data_stream("shop", "made").from_array([{"id": 1}]).to_memory(MemoryChannel()).build()


def seen_by_a_run(resources, config, monkeypatch):
    """The partitions and the end of windows that a run is given."""
    seen = []

    def opened(self, topology, run_id):
        seen.append((self.shuffle.partitions, self.window.finish))
        raise RuntimeError("enough seen")

    monkeypatch.setattr(runtime.RuntimeResource, "_open", opened)
    job = build_definitions([pipeline()], resources=resources).resolve_job_def("shop_made_run")
    job.execute_in_process(run_config={"resources": config}, raise_on_error=False)
    return seen[0]


def test_what_a_location_says_is_the_default_of_its_runs(monkeypatch):
    resources = {
        "shuffle": ShuffleResource.configure_at_launch(partitions=7),
        "window": WindowResource.configure_at_launch(finish=True),
    }
    assert seen_by_a_run(resources, {}, monkeypatch) == (7, True)
    assert seen_by_a_run(resources, {"rs_shuffle": {"config": {"partitions": 3}}}, monkeypatch) == (3, True)
    assert seen_by_a_run(None, {}, monkeypatch) == (0, False)


def test_what_is_made_directly_is_fixed(monkeypatch):
    assert seen_by_a_run({"shuffle": ShuffleResource(partitions=5)}, {}, monkeypatch) == (5, False)


def test_a_resource_of_no_family_is_refused():
    with pytest.raises(ConfigurationError, match=r"(?s)unknown families of resources: 'sprak'.*use: spark, source"):
        build_definitions([pipeline()], resources={"sprak": SparkResource.configure_at_launch()})


def test_a_join_has_an_op_an_asset_and_a_resource_of_its_family(monkeypatch):
    job = StreamBuilder.data_stream("shop", "paid")
    one, two = (job.from_array([{"id": 1}], name=name) for name in ("one", "two"))
    made = one.join(two, on="id", within=None).to_memory(MemoryChannel()).build()
    definitions = build_definitions(
        [made],
        resources={
            "join": JoinResource.configure_at_launch(idle_timeout_seconds=5),
            "window": WindowResource.configure_at_launch(close_on_idle_seconds=6),
        },
    )
    assets = definitions.resolve_asset_graph()
    state = assets.get(AssetKey(["shop", "paid", "join"]))
    assert (state.group_name, {key.path[-1] for key in state.parent_keys}) == ("shop_paid", {"one", "two"})
    launched = definitions.resolve_job_def("shop_paid_run")
    assert "join" in {node.name for node in pipeline_graph(StreamAssets.of(made)).nodes}
    seen = []

    def opened(topology, options):
        seen.append((options.idle_timeout, options.close_on_idle))
        raise RuntimeError("enough seen")

    monkeypatch.setattr(runtime, "opened", opened)
    launched.execute_in_process(raise_on_error=False)
    assert seen[0] == (timedelta(seconds=5), timedelta(seconds=6))
