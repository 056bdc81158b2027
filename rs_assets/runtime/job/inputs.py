"""Compares the input of a pipeline with what it has read: before a run begins, and while its queries read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.source import Complete, Known, SourceReader, Start, Unfinished, Watch, Watched, Watching

# Called with lost records of a source that are not an error.
NoteLoss = Callable[[str, Sequence[object]], None]


def check_inputs(
    readers: Mapping[str, SourceReader],
    manifest: Manifest,
    logs: Sequence[tuple[QueryPlan, CheckpointLog]],
    note: NoteLoss,
    *,
    ended: Collection[str] = (),
    repeated: Collection[str] = (),
) -> dict[str, Known]:
    """The input state of each source for the manifest.

    `logs` are the queries with their logs; the input of those named in `ended` has ended, too, and those in `repeated`
    compute former batches again over what was planned for them. SealedError or
    DataLossError if input has changed that this generation will not read again, or is gone; SourceReadError if a source
    cannot be read.
    """
    kept, noted = dict(manifest.inputs), set[str]()
    for name, reader in readers.items():
        found = [(plan, log) for plan, log in logs if name in plan.sources]
        # A source of several queries belongs to one of them.
        found.sort(key=lambda each: name not in each[0].counted_sources)
        known = reader.check(
            Start(
                known=manifest.inputs_of(name),
                logs=[SourceLog(log, name, repeated=plan.name in repeated) for plan, log in found],
                sealed=manifest.sealed or any(plan.name in ended for plan, _ in found),
                note=partial(_note_once, note, noted, name),
            )
        )
        if known or name in kept:
            kept[name] = known
    return kept


def _note_once(note: NoteLoss, noted: set[str], source: str, losses: Sequence[object]) -> None:
    fresh = [loss for loss in losses if str(loss) not in noted]
    noted |= {str(loss) for loss in fresh}
    if fresh:
        note(source, fresh)


def check_all_read(
    readers: Mapping[str, SourceReader], logs: Sequence[tuple[QueryPlan, CheckpointLog]], before_ms: int
) -> None:
    """SourceReadError for input that existed before a run and that its queries, now at their end, did not read."""
    for plan, log in logs:
        for name in plan.sources:
            reader = readers[name]
            if isinstance(reader, Complete):
                reader.check_all_read(SourceLog(log, name), before_ms)


def check_ended(readers: Mapping[str, SourceReader], logs: Sequence[tuple[QueryPlan, CheckpointLog]]) -> None:
    """SourceReadError for a record that is incomplete when the input of a run ends."""
    for plan, log in logs:
        for name in plan.sources:
            reader = readers[name]
            if isinstance(reader, Unfinished):
                reader.check_ended(SourceLog(log, name))


def watches_of(
    readers: Mapping[str, SourceReader],
    log: CheckpointLog,
    *,
    known: Callable[[str], Known],
    keep: Callable[[str, Known], None],
    note: NoteLoss,
    inferred: Callable[[str], str | None],
    max_line_bytes: int,
) -> dict[str, Watch]:
    """The watches of the sources of one query; `log` is its log, the functions access the manifest."""
    return {
        name: reader.watch(
            Watching(
                log=SourceLog(log, name),
                known=partial(known, name),
                keep=partial(keep, name),
                note=partial(note, name),
                inferred=partial(inferred, name),
                max_line_bytes=max_line_bytes,
            )
        )
        for name, reader in readers.items()
        if isinstance(reader, Watched)
    }
