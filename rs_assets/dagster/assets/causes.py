"""Why a run was launched by a sensor: in its tags, and in the events of the assets that it leads to.

A change of splits, the rescale that it leads to and the restart after that name one another, so that they read
as one story on the page of a source's asset; so do a lost stream and its recovery.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dagster import AssetKey, AssetObservation, EventLogRecord, MetadataValue

from rs_assets.dagster.assets.roles import roles_of
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.runs.run_tags import EVENT, EVENT_AT, RECOVERS, RECOVERY_REASON, RESUMES_AFTER, RESUMES_RUN, WHY
from rs_assets.runtime.report import RunReport

Metadata = dict[str, Any]


def tags_of(record: EventLogRecord, key: AssetKey, why: str) -> dict[str, str]:
    """The tags of a run that an event of the asset `key` led to, with the reason in words."""
    return {WHY: why, EVENT: f"{key.to_user_string()}#{record.storage_id}", EVENT_AT: f"{record.timestamp:.3f}"}


def cause_in(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags in `tags` that name a cause, for the next run of the story."""
    return {name: tags[name] for name in (WHY, EVENT, EVENT_AT) if name in tags}


def cause_shown(tags: Mapping[str, str]) -> Metadata:
    """The cause in the tags of a run as metadata, with a link to the event; {} without one.

    >>> shown = cause_shown({"rs/why": "12 splits added", "rs/event": "shop/log#7", "rs/event_at": "1700000000.5"})
    >>> shown["caused_by"], shown["event"].value
    ('12 splits added', '/assets/shop/log?view=events&time=1700000000500')
    """
    made: Metadata = {"caused_by": tags[WHY]} if WHY in tags else {}
    if EVENT in tags:
        asset, at = tags[EVENT].rpartition("#")[0], int(float(tags[EVENT_AT]) * 1000)
        made["event"] = MetadataValue.url(f"/assets/{asset}?view=events&time={at}")
    return made


def restart_events(assets: StreamAssets, tags: Mapping[str, str]) -> list[AssetObservation]:
    """What a run with `tags` that follows another says on the assets of its sources; [] for one of a person."""
    described = _restart(tags)
    if described is None:
        return []
    text, metadata = described
    return [
        AssetObservation(assets.key(source.name), description=text, metadata=metadata)
        for source in assets.topology.origins
    ]


def unchanged_events(assets: StreamAssets, report: RunReport) -> list[AssetObservation]:
    """What a run that found nothing new says on the assets of its outputs, which it does not materialize; else []."""
    text, since = report.unchanged_in_words, report.unchanged_since
    metadata = {
        f"checkpoint of {query}" if len(since) > 1 else "checkpoint": str(batch) for query, batch in since.items()
    }
    outputs = [sink.name for sink in assets.topology.sinks if (sink.name, "output") in roles_of(assets.topology)]
    return [AssetObservation(assets.key(sink), description=text, metadata=metadata) for sink in outputs if text]


def _restart(tags: Mapping[str, str]) -> tuple[str, Metadata] | None:
    if RECOVERS in tags:
        metadata = {"recovers_run": MetadataValue.dagster_run(tags[RECOVERS])}
        return f"restarted: {tags[RECOVERY_REASON]}", metadata
    if RESUMES_AFTER in tags:
        upkeep = tags.get(RESUMES_RUN)
        run = {"resumes_after_run": MetadataValue.dagster_run(upkeep)} if upkeep else {}
        return f"restarted after {tags[RESUMES_AFTER]}", {**run, **cause_shown(tags)}
    return None
