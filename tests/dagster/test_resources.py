"""The families' resources of a code location: from where it was built, and from the Launchpad."""

from __future__ import annotations

import pytest

from rs_assets import MemoryChannel, ShuffleResource, SparkResource, StreamBuilder, WindowResource, build_definitions
from rs_assets.errors import ConfigurationError
from rs_assets.orchestration import runtime


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
    assert seen_by_a_run(resources, {"shuffle": {"config": {"partitions": 3}}}, monkeypatch) == (3, True)
    assert seen_by_a_run(None, {}, monkeypatch) == (0, False)


def test_what_is_made_directly_is_fixed(monkeypatch):
    assert seen_by_a_run({"shuffle": ShuffleResource(partitions=5)}, {}, monkeypatch) == (5, False)


def test_a_resource_of_no_family_is_refused():
    with pytest.raises(ConfigurationError, match=r"(?s)no family 'sprak' of resources.*use: spark, source"):
        build_definitions([pipeline()], resources={"sprak": SparkResource.configure_at_launch()})
