"""The assets of one pipeline: one a step that leaves something behind, as a translator describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dagster import AssetKey, AssetSpec

from rs_assets.errors import ConfigurationError
from rs_assets.orchestration.roles import ROLE_OF, upstream_roles
from rs_assets.orchestration.translator import StreamStep, StreamTranslator
from rs_assets.pipeline.stream.pipeline import Pipeline
from rs_assets.pipeline.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class StreamAssets:
    """A pipeline and the specs of its assets, by step. Everything in Dagster that names an asset asks here."""

    pipeline: Pipeline
    specs: Mapping[str, AssetSpec]

    @classmethod
    def of(cls, pipeline: Pipeline, translator: StreamTranslator | None = None) -> StreamAssets:
        """The assets as `translator` describes them, with the dependencies between them.

        ConfigurationError for what describes none, and for two steps of one key.
        """
        topology, describe = pipeline.topology, (translator or StreamTranslator()).get_asset_spec
        nodes = [node for node in topology if node.family in ROLE_OF]
        bare = {node.name: _spec(describe(StreamStep(pipeline, node)), node.name) for node in nodes}
        _check_keys(bare)
        above = {node.name: [bare[step].key for step, _ in upstream_roles(topology, node)] for node in nodes}
        return cls(pipeline, {step: spec.merge_attributes(deps=above[step]) for step, spec in bare.items()})

    @property
    def topology(self) -> Topology:
        """The pipeline as data."""
        return self.pipeline.topology

    @property
    def name(self) -> str:
        """Namespace and job, joined by a dot."""
        return self.pipeline.name

    @property
    def label(self) -> str:
        """The name of the pipeline's graph, and what those of its jobs and sensors begin with."""
        return self.topology.label

    def key(self, step: str) -> AssetKey:
        """The key of the asset of `step`."""
        return self.specs[step].key


def _spec(described: object, step: str) -> AssetSpec:
    if isinstance(described, AssetSpec):
        return described
    raise ConfigurationError(
        f"the translator describes {step!r} by a {type(described).__name__}", remedy="return an AssetSpec for each step"
    )


def _check_keys(specs: Mapping[str, AssetSpec]) -> None:
    known: dict[AssetKey, str] = {}
    for step, spec in specs.items():
        other = known.setdefault(spec.key, step)
        if other != step:
            raise ConfigurationError(
                f"the translator gives {other!r} and {step!r} one key, {spec.key.to_user_string()}",
                remedy="have the name of the step in it: step.node.name",
            )
