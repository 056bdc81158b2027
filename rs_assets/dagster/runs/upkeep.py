"""The upkeep job of a pipeline: its setting names the action, such as verify, savepoint, restore, why or capture."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dagster import (
    AssetObservation,
    Failure,
    Field,
    JobDefinition,
    MarkdownMetadataValue,
    MetadataValue,
    Noneable,
    OpExecutionContext,
    ScheduleDefinition,
    Selector,
    String,
    in_process_executor,
    job,
    op,
)
from dagster._core.utils import is_valid_run_id

from rs_assets.catalog import requests
from rs_assets.catalog.desired_state import read_desired_state
from rs_assets.catalog.lease import LeaseRow, read_lease
from rs_assets.common.plural import count_of
from rs_assets.dagster.assets.causes import cause_shown
from rs_assets.dagster.assets.roles import Role, roles_of
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.nightly import nightly
from rs_assets.dagster.place import place_of
from rs_assets.dagster.resources.resource_keys import key_of
from rs_assets.dagster.resources.sink import SinkResource
from rs_assets.dagster.resources.spark import SparkResource
from rs_assets.dagster.runs.compaction import compact_pipeline, compact_shared, delta_outputs
from rs_assets.dagster.runs.run_tags import WHY
from rs_assets.errors import PipelineBusyError
from rs_assets.runtime.capture.capture import MAX_RECORDS, Asked, capture
from rs_assets.runtime.job import preflight
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.compare import compare
from rs_assets.runtime.recorded.promote import Promotion
from rs_assets.runtime.recorded.records_of import records_of
from rs_assets.runtime.recorded.redrive import redrive
from rs_assets.runtime.recorded.why import Sought, why
from rs_assets.runtime.run.rescale import rescale
from rs_assets.runtime.run.rescale_requests import rescale_running
from rs_assets.runtime.run.rescaled import RescaleReport, check_partitions
from rs_assets.runtime.upkeep import savepoints
from rs_assets.topology.topology import Topology

# Seconds that a running stream may take to drain and end.
STOP_S = 120.0
LOOK_S = 0.2
Config = Mapping[str, Any]
Act = Callable[[OpExecutionContext, StreamAssets, RunOptions, Config], Config]


def _verify(context: OpExecutionContext, assets: StreamAssets, options: RunOptions, _config: Config) -> Config:
    found = [(query.query, f) for query in preflight.verify(assets.topology, options) for f in query.found]
    for query, finding in found:
        context.log.warning("%s: %s %s: %s (%s)", query, finding.code, finding.file, finding.meaning, finding.remedy)
    errors = [finding for _, finding in found if finding.severity == "error"]
    if errors:
        raise Failure(f"{count_of(len(errors), 'finding')} would stop the next start", allow_retries=False)
    return {"findings": len(found)}


def _savepoint(_context: OpExecutionContext, assets: StreamAssets, options: RunOptions, config: Config) -> Config:
    taken = savepoints.savepoint(assets.topology, options, note=config["note"])
    return {"savepoint": taken.id, "bytes": taken.bytes_total, "bytes_copied": taken.bytes_new}


def _restore(context: OpExecutionContext, assets: StreamAssets, options: RunOptions, config: Config) -> Config:
    savepoints.check_restore(assets.topology, options, savepoint_id=config["savepoint"])
    with _stopped(context, assets.topology, options, "a restore"):
        chosen = savepoints.restore(assets.topology, options, savepoint_id=config["savepoint"])
    return {"savepoint": chosen.id, **{f"batch_{query}": batch for query, batch in chosen.batches.items()}}


def _rewind(context: OpExecutionContext, assets: StreamAssets, options: RunOptions, config: Config) -> Config:
    savepoints.check_rewind(assets.topology, config["to_batch"], options, step=config["step"])
    with _stopped(context, assets.topology, options, "a rewind"):
        done = savepoints.rewind(assets.topology, config["to_batch"], options, step=config["step"])
    return {"done": done}


def _rescale(context: OpExecutionContext, assets: StreamAssets, options: RunOptions, config: Config) -> Config:
    check_partitions(assets.topology, config["partitions"])
    outcome = rescale_running(
        assets.topology, options, config["partitions"], reason=context.run.tags.get(WHY, "the upkeep job")
    )
    if outcome is not None and outcome.report is not None:
        stopped_s = round(outcome.report.waited_s or 0, 3)
        stream = {"stream_run": _run_shown(context, outcome.run_id), "stopped_seconds": stopped_s}
        return {**_rescaled(outcome.report), **stream}
    if outcome is not None and outcome.refused is not None:
        if outcome.replaced:
            raise outcome.refused
        context.log.warning("%s; a stream that runs is stopped for the rescale", outcome.refused.what)
    with _stopped(context, assets.topology, options, "a rescale"):
        return _rescaled(rescale(assets.topology, config["partitions"], options))


def _rescaled(report: RescaleReport) -> Config:
    return {
        "partitions_before": report.before,
        "partitions": report.after,
        "state_rows": sum(report.state_rows.values()),
        "seconds": round(report.seconds, 3),
    }


def _run_shown(context: OpExecutionContext, run_id: str) -> MetadataValue[Any]:
    """The run of a stream, as a link if Dagster knows it."""
    known = context.instance.get_run_by_id(run_id) is not None
    return MetadataValue.dagster_run(run_id) if known else MetadataValue.text(run_id)


def _compact(context: OpExecutionContext, assets: StreamAssets, options: RunOptions, _config: Config) -> Config:
    home, sink = options.home, getattr(context.resources, key_of("sink"))
    done = compact_pipeline(assets.topology, home, target_mb=sink.target_file_mb or None)
    for step, path in delta_outputs(assets.topology, home).items():
        if path in done:
            context.log_event(AssetObservation(assets.key(step), description="compact", metadata=done[path]))
    done |= compact_shared(home, savepoints=options.savepoints.uri)
    for table, counts in done.items():
        context.log.info("%s: %s", table, counts)
    return {"tables": len(done), "files_joined": sum(counts["files_joined"] for counts in done.values())}


def _why(context: OpExecutionContext, assets: StreamAssets, options: RunOptions, config: Config) -> Config:
    found = why(assets.topology, Sought(**config), options)
    for each in found:
        context.log.info("%s", each)
    if not found:
        raise Failure("no such record in the batches that can be read again", allow_retries=False)
    return {f"record {number}": _text(each) for number, each in enumerate(found, 1)}


def _records_of(context: OpExecutionContext, assets: StreamAssets, options: RunOptions, config: Config) -> Config:
    found = records_of(assets.topology, config["row"], options, sink=config["sink"], limit=config["limit"])
    context.log.info("%s", found)
    return {"rows": found.rows, "records": _text(found)}


def _redrive(context: OpExecutionContext, assets: StreamAssets, options: RunOptions, config: Config) -> Config:
    done = redrive(assets.topology, options, where=config["where"], plan=config["plan"])
    context.log.info("%s", done)
    left = {f"left: {why}": count for why, count in done.left.items()}
    counts = {"letters": done.letters, "refused": done.refused, "rows": done.rows, "version": done.version}
    return {**{name: count for name, count in counts.items() if count is not None}, **left}


def _try(context: OpExecutionContext, assets: StreamAssets, options: RunOptions, config: Config) -> Config:
    asked = {name: value for name, value in config.items() if name != "expect_equal"}
    found = compare(assets.topology, options, **asked)
    context.log.info("%s", found)
    if config["expect_equal"] and not found.empty:
        raise Failure(
            f"the rows differ: {str(found).splitlines()[1]}", {"difference": _text(found)}, allow_retries=False
        )
    counts = ("rows_before", "rows_after", "only_before", "only_after", "changed", "batches")
    shown = {name: getattr(found, name) for name in counts}
    code = {"code": found.code} if found.code else {}
    return {"equal": found.empty, "partitions": len(found.partitions), **shown, **code, "difference": _text(found)}


def _promote(context: OpExecutionContext, assets: StreamAssets, options: RunOptions, config: Config) -> Config:
    asked = Promotion(
        topology=assets.topology,
        options=replace(options, keep_state=config["keep_state"], reset_steps=tuple(config["reset_steps"])),
        **{name: config[name] for name in ("code", "rewrite_from", "sink", "judge")},
    )
    asked.check()
    if not asked.switched:
        with _stopped(context, assets.topology, options, "a promotion"):
            asked.switch()
    done = asked.rewrite()
    context.log.info("%s", done)
    batches = {f"first batch of {query}": batch for query, batch in done.batches.items()}
    counts = {name: len(getattr(done, name)) for name in ("rewritten", "already", "left")}
    return {"code": done.code, **batches, **counts, "promotion": _text(done)}


def _capture(context: OpExecutionContext, assets: StreamAssets, options: RunOptions, config: Config) -> Config:
    batches = config["batches"]
    asked = Asked(**{**config, "batches": (batches[0], batches[-1]) if batches else None})
    found = capture(assets.pipeline, assets.topology, asked, options)
    context.log.info("%s", found)
    counts = ("records", "refused", "earlier", "expected", "committed")
    paths = {"folder": found.folder, "test": found.test}
    return {
        **{name: MetadataValue.path(str(path)) for name, path in paths.items() if path is not None},
        **{name: getattr(found, name) for name in counts},
        "batches": ", ".join(map(str, found.batches)),
        "capture": _text(found),
    }


def _text(shown: object) -> MetadataValue:
    return MetadataValue.md(f"```\n{shown}\n```")


def _in_one_line(metadata: Config) -> str:
    """Its values without the texts of several lines, which the action itself has logged.

    >>> _in_one_line({"rows": 2, "version": 7, "records": _text("logged before")})
    'rows 2, version 7'
    >>> _in_one_line({"record 1": _text("logged before")})
    'done'
    """
    plain = {
        name: getattr(value, "value", value)
        for name, value in metadata.items()
        if not isinstance(value, MarkdownMetadataValue)
    }
    return ", ".join(f"{name} {value}" for name, value in plain.items()) or "done"


def _optional(about: str, kind: type = str) -> Field:
    return Field(Noneable(kind), default_value=None, description=about)


STEP = _optional("The stateful step, if there are several queries")


@dataclass(frozen=True, slots=True)
class Action:
    """An action on a pipeline: its function, description, and settings in the Launchpad.

    Its results are observed on the assets with these `roles`, or on the one that its settings name.
    """

    act: Act
    about: str
    settings: Mapping[str, Field] = field(default_factory=dict)
    roles: frozenset[Role] = frozenset({"checkpoint", "state"})


ACTIONS: Mapping[str, Action] = MappingProxyType(
    {
        "verify": Action(_verify, "Checks the checkpoints as every start does; fails if a start would be refused."),
        "savepoint": Action(
            _savepoint,
            "Copies the checkpoints, running or stopped, to the savepoint store.",
            {"note": Field(String, default_value="", description="What it is for")},
        ),
        "restore": Action(
            _restore,
            "Brings the pipeline and its sinks back to a savepoint; a running stream is stopped and started again.",
            {"savepoint": _optional("Its id; default: the newest")},
        ),
        "rewind": Action(
            _rewind,
            "Brings the pipeline and its sinks back to the end of a batch.",
            {"to_batch": Field(int, description="The last batch that stays"), "step": STEP},
        ),
        "rescale": Action(
            _rescale,
            "Rewrites the state in another number of partitions. A running stream does it itself and goes on; one that"
            " cannot is stopped and started again.",
            {"partitions": Field(int, description="The number of state partitions")},
        ),
        "compact": Action(
            _compact,
            "Joins the small files of the outputs, the state and the catalog; removes files that no version uses.",
            roles=frozenset(),
        ),
        "why": Action(
            _why,
            "Shows what became of a record: which step passed it on, dropped it, or keeps it. A stream may run.",
            {
                "where": _optional("SQL over the fields of the source: id = 17"),
                "text": _optional("A part of the record's text"),
                "split": _optional("Its split, as in a dead letter"),
                "line": _optional("Its line in the split", int),
                "source": _optional("The source, if there are several"),
                "batch": _optional("The batch that read it; default: the newest first", int),
                "limit": Field(int, default_value=1, description="The most records"),
            },
            roles=frozenset({"checkpoint"}),
        ),
        "records_of": Action(
            _records_of,
            "Shows the records that a row of a result is made of. A stream may run.",
            {
                "row": Field(dict, description="Fields of the row; of a window its groups and its times"),
                "sink": _optional("The sink, if there are several"),
                "limit": Field(int, default_value=20, description="The most records that are shown"),
            },
            roles=frozenset({"output"}),
        ),
        "redrive": Action(
            _redrive,
            "Takes dead letters through the current code, and appends their rows to the output, each once. A stream may"
            " run.",
            {
                "where": _optional("SQL over the columns of the dead letters: reason LIKE 'expected%'; default: all"),
                "plan": Field(bool, default_value=False, description="Only say how many would be redriven"),
            },
            roles=frozenset({"output"}),
        ),
        "try": Action(
            _try,
            "Compares the rows of closed partitions, or of a table without any, with those that the current code"
            " computes from the recorded batches; nothing is changed. A stream may run.",
            {
                "partition": _optional("The first partition; default: the newest closed ones"),
                "to": _optional("The last one; default: the first one alone"),
                "sink": _optional("The output, if several have partitions"),
                "newest": Field(int, default_value=24, description="Without a partition, so many"),
                "keys": Field([str], default_value=[], description="Fields that identify a row; default: whole rows"),
                "into": _optional("A new folder, for a Delta table with each row that differs"),
                "savepoint_id": _optional(
                    "Go on from the state of this savepoint, or of the newest; default: from no state"
                ),
                "expect_equal": Field(bool, default_value=False, description="Fail if a row or a column differs"),
            },
            roles=frozenset({"output"}),
        ),
        "promote": Action(
            _promote,
            "Lets the current code, which was tried, compute all batches from now on: a running stream is stopped and"
            " started again. Then replaces the rows of closed partitions, if one is named.",
            {
                "code": Field(String, description="The code that was tried, in quotes: try shows it as `code`"),
                "rewrite_from": _optional("The first partition whose rows are replaced; default: none"),
                "sink": _optional("The output, if several have partitions"),
                "judge": Field(
                    String, default_value="as_now", description="which late records are taken, as of a backfill"
                ),
                "keep_state": Field(bool, default_value=False, description="Use the state of another code as it is"),
                "reset_steps": Field([str], default_value=[], description="Steps whose state is forgotten"),
            },
            roles=frozenset({"output"}),
        ),
        "capture": Action(
            _capture,
            "Writes the records of a batch that failed, or gave a wrong row, into a folder of tests, with their test."
            " A stream may run.",
            {
                "batches": Field(
                    [int],
                    default_value=[],
                    description="One, or the first and the last; default: the one that failed, else the newest",
                ),
                "partition": _optional("Instead of batches: those of a closed partition"),
                "sink": _optional("An output of the query, if there are several queries"),
                "into": Field(String, default_value="tests/captured", description="Where the folder is made"),
                "name": _optional("The folder and the test; default: the job and the batches"),
                "mask": Field([str], default_value=[], description="Fields whose texts become digests"),
                "expect": Field(bool, default_value=True, description="Expect the rows that tables got; false: none"),
                "max_records": Field(int, default_value=MAX_RECORDS, description="More records are refused"),
            },
            roles=frozenset({"output"}),
        ),
    }
)
CHOICE = Selector(  # type: ignore[no-untyped-call]
    {name: Field(dict(a.settings), description=a.about) for name, a in ACTIONS.items()}
)


def upkeep_job(assets: StreamAssets) -> JobDefinition:
    """One job for all actions; its setting names the action."""
    topology = assets.topology

    @op(name=f"{assets.label}__upkeep", config_schema=Field(CHOICE, default_value={"verify": {}}))
    def act(context: OpExecutionContext, rs_spark: SparkResource, rs_sink: SinkResource) -> None:  # noqa: ARG001  of actions
        [(name, config)] = context.op_config.items()
        options = place_of(context, topology).options(driver=rs_spark.driver, run_id=context.run_id)
        action = ACTIONS[name]
        metadata = dict(action.act(context, assets, options, config))
        context.log.info("%s of %s: %s", name, assets.name, _in_one_line(metadata))
        named = config.get("sink") or config.get("source")
        for step, role in roles_of(topology):
            if role in action.roles and named in (None, step):
                shown = {**metadata, **cause_shown(context.run.tags)}
                context.log_event(AssetObservation(assets.key(step), description=name, metadata=shown))

    @job(
        name=f"{assets.label}_upkeep",
        description=f"{assets.name}: {', '.join(ACTIONS)}; choose one in the Launchpad.",
        tags={"rs/pipeline": assets.name, "dagster/max_retries": "0"},
        executor_def=in_process_executor,
        # The Launchpad's default; people choose the action.
        config={"ops": {"upkeep": {"config": {"verify": {}}}}},
    )
    def upkeep() -> None:
        act.alias("upkeep")()

    return upkeep


def nightly_compaction(assets: StreamAssets, target: JobDefinition) -> ScheduleDefinition:
    """Every night between three and four, UTC, at a different minute for each pipeline; switched on in the UI."""
    return ScheduleDefinition(
        name=f"{assets.label}_nightly_compaction",
        job=target,
        cron_schedule=nightly(assets.name, hour=3),
        execution_timezone="UTC",
        run_config={"ops": {"upkeep": {"config": {"compact": {}}}}},
    )


@contextmanager
def _stopped(context: OpExecutionContext, topology: Topology, options: RunOptions, why: str) -> Iterator[None]:
    """Wait until no run holds the pipeline; a stream is asked to stop, and to start again afterwards.

    PipelineBusyError if the run does not end in time. A stream that is still draining is started again even so.
    """
    folder = options.home.job(topology.namespace, topology.job)
    lease = read_lease(options.home.leases, topology.name)
    mode = _mode_of(context, lease) if lease is not None and not lease.free else None
    try:
        if mode is not None:
            context.log.info("waiting for the run that holds %s to stop", topology.name)
        if mode in ("start", "unknown"):
            requests.ask(folder, "stop", reason=why, run_id=context.run_id)
        if mode is not None:
            _wait_until_free(topology, options)
        yield
    finally:
        if mode in ("start", "unknown"):
            requests.clear(folder, "stop")
        if mode == "start" and not _stopped_by_a_person(folder):
            requests.ask(folder, "resume", reason=why, run_id=context.run_id)
        elif mode == "unknown" and lease is not None and _is_of_another_dagster(folder, lease):
            requests.ask(folder, "resume", reason=why, run_id=context.run_id)
            context.log.warning("%s is the stream of another Dagster, which is asked to start it again", topology.name)
        elif mode == "unknown":
            context.log.warning("%s was not started by Dagster: start it again yourself", topology.name)


def _is_of_another_dagster(folder: Path, lease: LeaseRow) -> bool:
    """Whether the holder, which this Dagster does not know, is the stream and a run of Dagster."""
    desired = read_desired_state(folder)
    wanted = desired is not None and not desired.stopped and desired.run_id == lease.run_id
    return wanted and is_valid_run_id(lease.run_id)


def _stopped_by_a_person(folder: Path) -> bool:
    """Whether the desired state of the stream is stopped: a person stopped it while it drained."""
    desired = read_desired_state(folder)
    return desired is not None and desired.stopped


def _mode_of(context: OpExecutionContext, lease: LeaseRow) -> str:
    """The mode of the run that holds the lease: run, start, or unknown if Dagster has not launched it."""
    run = context.instance.get_run_by_id(lease.run_id)
    return run.tags.get("rs/mode", "run") if run is not None else "unknown"


def _wait_until_free(topology: Topology, options: RunOptions) -> None:
    pause, deadline = threading.Event(), time.monotonic() + STOP_S
    while time.monotonic() < deadline:
        lease = read_lease(options.home.leases, topology.name)
        if lease is None or lease.free:
            return
        pause.wait(LOOK_S)
    raise PipelineBusyError(
        f"{topology.name} did not stop within {STOP_S:.0f} s", remedy="terminate its run, then launch this again"
    )
