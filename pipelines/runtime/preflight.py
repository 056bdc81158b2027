"""The look at a pipeline's checkpoints before they are used, with what its manifest and its sinks know."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipelines.compile.plan import QueryPlan
from pipelines.compile.window import CONTROL_SOURCE
from resources.checkpoint.manifest import Manifest, QueryFacts
from resources.checkpoint.preflight import Expected, Finding, verify_query
from resources.sink.base import BatchMark, SinkWriter


def expected(plan: QueryPlan, manifest: Manifest, facts: QueryFacts, writers: Mapping[str, SinkWriter]) -> Expected:
    """What the checkpoint of `plan` should look like."""
    remembered = {
        name: writer.last_committed(
            BatchMark(manifest.pipeline_id, facts.generation, manifest.stored_name(name), batch_id=0)
        )
        for name, writer in writers.items()
    }
    control = (CONTROL_SOURCE,) if plan.stateful else ()
    return Expected(
        query=plan.name,
        sources=(*(manifest.stored_name(s) for s in plan.sources), *control),
        stateful=plan.stateful is not None,
        # A rescale that was cut short is finished behind this look; until then each query has its own number.
        partitions=0 if manifest.rescaling else manifest.partitions,
        query_id=facts.query_id,
        sinks={name: batch for name, batch in remembered.items() if batch is not None},
        generation=facts.generation,
        sinks_seen={name: facts.sinks.get(name, -1) for name, batch in remembered.items() if batch is not None},
    )


def findings(
    plan: QueryPlan, folder: Path, manifest: Manifest, facts: QueryFacts, writers: Mapping[str, SinkWriter]
) -> tuple[Finding, ...]:
    """All that is wrong with the checkpoint of one query."""
    return verify_query(folder / "checkpoint", expected(plan, manifest, facts, writers))
