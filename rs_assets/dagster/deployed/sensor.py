"""The sensor of deployments: it launches, changes and stops deployed pipelines, and reports the results."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from dagster import (
    AssetObservation,
    DagsterRun,
    DefaultSensorStatus,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from rs_assets.catalog import requests
from rs_assets.catalog.catalog import Catalog
from rs_assets.catalog.deployments import Version, is_name, stamp_of
from rs_assets.catalog.desired_state import read_desired_state
from rs_assets.catalog.lease import LeaseRow, read_lease
from rs_assets.common.home import Home
from rs_assets.common.plural import count_of
from rs_assets.dagster.deployed.decision import Decision, Known, decide, restarts_of
from rs_assets.dagster.deployed.job import DESIRED, JOB, version_text
from rs_assets.dagster.deployed.reload import ask_for_reload
from rs_assets.dagster.deployed.visible import VisibleVersion, precedence, visible_pipelines
from rs_assets.dagster.sensors import cursor
from rs_assets.dagster.sensors.resuming import resume_request
from rs_assets.dagster.sensors.stream_runs import StreamRuns
from rs_assets.dagster.sensors.verdict import Verdict
from rs_assets.deploy.history import TABLE, Event, History, Standing, standings
from rs_assets.deploy.texts import pipeline_of
from rs_assets.errors import ConfigurationError, RsError

SENSOR = "rs_deployments"
EVERY_S = 5
# Seconds until a failed reload is requested again.
RELOAD_AGAIN_S = 60.0


def deployment_sensor(shown: Sequence[VisibleVersion], taken: Collection[str]) -> SensorDefinition:
    """Watches the table of deployments of RS_HOME; `shown` are the versions that have assets now.

    `taken` are the labels of pipelines of code, which no deployed pipeline may have.
    """

    @sensor(
        name=SENSOR,
        job_name=JOB,
        minimum_interval_seconds=EVERY_S,
        default_status=DefaultSensorStatus.RUNNING,
        description="Makes, changes, stops and starts the pipelines of the table catalog/deployments.",
    )
    def deployments(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        home, seen = Home.default(), cursor.load(context.cursor)
        tick = _Tick(context, home, seen, taken)
        try:
            results = [f"{name}: {tick.dealt_with(name, state)}" for name, state in standings(home).items()]
        except RsError as error:
            return SkipReason(str(error))
        results += tick.reload(shown)
        events = list(tick.observations(shown))
        return SensorResult(
            run_requests=tick.launches,
            asset_events=events,
            cursor=cursor.dump(tick.seen),
            skip_reason=None if tick.launches else "; ".join(results) or "nothing is deployed",
        )

    return deployments


class _Tick:
    """One tick over all deployed pipelines: `launches` are requested runs, `seen` is the cursor of the next tick."""

    def __init__(
        self, context: SensorEvaluationContext, home: Home, seen: dict[str, Any], taken: Collection[str]
    ) -> None:
        self.context = context
        self.home = home
        self.seen = seen
        self.taken = taken
        self.history = History(Catalog(home.catalog))
        self.launches: list[RunRequest] = []

    def dealt_with(self, name: str, state: Standing) -> str:
        """Handle one pipeline; returns the result, or the error, so that other pipelines are still handled."""
        try:
            return self.deal_with(name, state)
        except (RsError, OSError) as error:
            return f"{type(error).__name__}: {error}"

    def deal_with(self, name: str, state: Standing) -> str:
        """Handle one pipeline; returns the result in words."""
        if state.last is None and not self._builds(state.desired):
            state = standings(self.home)[name]
        mine = self.seen.setdefault("pipelines", {}).setdefault(name, {})
        now, lease = time.time(), read_lease(self.home.leases, name)
        run, verdict, stream = self._run(name, lease)
        resume = resume_request(self._folder(name), self.context.instance)
        # The request is there until a run is the stream.
        due = resume is not None and (resume["id"] != mine.get("resumed") or (stream is not None and stream.is_refused))
        known = Known(
            standing=state,
            lease=lease,
            run=run,
            failed=verdict.act == "restart",
            calm=self._calm(run, verdict),
            stopped=verdict.end == "stopped",
            newest=run is not None and run.tags.get(DESIRED) == version_text(state.desired),
            resume=resume["reason"] if resume is not None and due else None,
            restarts=restarts_of(mine, now),
            now=now,
        )
        decision = decide(known)
        if decision.act == "ask":
            requests.ask(self._folder(name), "change", reason=decision.why)
        elif decision.act == "settle":
            self._settle(state.desired, decision)
        elif decision.act == "launch":
            self._launch(name, state, decision, mine, now)
            mine["resumed"] = resume["id"] if resume else mine.get("resumed")
        return decision.why + (f"; {count_of(state.strays, 'row')} without a version above 0" if state.strays else "")

    def _builds(self, version: Version) -> bool:
        """Whether a version can be read; if not, it is recorded as refused, whatever runs."""
        try:
            pipeline_of(version)
            other = self._same_label(version.pipeline)
            if other:
                raise ConfigurationError(
                    f"{other} is called {_label(version.pipeline)} in Dagster", remedy="use another name"
                )
        except RsError as error:
            if version.state == "running" or version.fault:
                self._note(version, "refused", f"{type(error).__name__}: {error}")
                return False
        return True

    def _same_label(self, name: str) -> str:
        """The other owner of a pipeline's label in Dagster, in words; empty if the label is free."""
        if _label(name) in self.taken:
            return "another pipeline"
        every = standings(self.home)
        mine = precedence(name, every[name])
        others = (other for other, state in every.items() if other != name and state.shown is not None)
        same = (other for other in others if _label(other) == _label(name))
        return next((f"the pipeline {other}" for other in same if precedence(other, every[other]) < mine), "")

    def _settle(self, version: Version, decision: Decision) -> None:
        self._note(version, "dropped" if version.state == "dropped" else "stopped", decision.why)

    def _note(self, version: Version, happened: Any, summary: str) -> None:
        self.history.note(Event.about(version, happened, summary))
        self.context.log.info("%s, version %d: %s: %s", version.pipeline, version.version, happened, summary)

    def _launch(self, name: str, state: Standing, decision: Decision, mine: dict[str, Any], now: float) -> None:
        mine["launches"] = mine.get("launches", 0) + 1
        mine["restarts"] = [*restarts_of(mine, now), *([now] if decision.restart else [])]
        version = state.chosen.version if state.chosen is not None else state.desired.version
        self.launches.append(
            RunRequest(
                run_key=f"{name}:{version}:{mine['launches']}:{int(now)}",
                run_config={"ops": {"deployed": {"config": {"pipeline": name}}}},
                tags={
                    "rs/pipeline": name,
                    "rs/begins_with": str(version),
                    "rs/why": decision.why[:200],
                    DESIRED: version_text(state.desired),
                },
            )
        )

    def _run(self, name: str, lease: LeaseRow | None) -> tuple[DagsterRun | None, Verdict, StreamRuns | None]:
        """The current run of the pipeline's deployed versions, else the run that decides; the verdict, and all runs."""
        mine = RunsFilter(job_name=JOB, tags={"rs/pipeline": name})
        if lease is not None and not lease.free:
            holder = self.context.instance.get_run_by_id(lease.run_id)
            if holder is not None and holder.job_name == JOB and holder.tags.get("rs/pipeline") == name:
                return holder, Verdict(act="wait", why="it goes on"), None
        stream = StreamRuns.of(self.context.instance, mine, read_desired_state(self._folder(name)), lease)
        verdict = stream.verdict()
        return stream.run(verdict.run_id), verdict, stream

    def _calm(self, run: DagsterRun | None, verdict: Verdict) -> str:
        if run is None or not run.is_finished or verdict.act != "leave":
            return ""
        return f"{verdict.why}: fix it, then deploy a version" if verdict.end == "refused" else verdict.why

    def _folder(self, name: str) -> Any:
        return self.home.job(*name.split(".")) if is_name(name) else self.home.catalog / "nowhere"

    def observations(self, shown: Sequence[VisibleVersion]) -> Iterator[AssetObservation]:
        """New events of deployments as observations of the pipelines' outputs."""
        stamp = stamp_of(self.home.catalog / TABLE)
        if stamp == self.seen.get("events"):
            return
        self.seen["events"] = stamp
        by_name = {each.version.pipeline: each.assets for each in shown}
        for event in self.history.of():
            mine = self.seen.setdefault("pipelines", {}).setdefault(event.pipeline, {})
            at = event.at.isoformat() if event.at is not None else ""
            if at <= mine.get("told", ""):
                continue
            mine["told"] = at
            assets = by_name.get(event.pipeline)
            for sink in assets.topology.sinks if assets is not None else ():
                if assets is not None and sink.name in assets.specs:
                    yield AssetObservation(
                        assets.key(sink.name),
                        description=f"version {event.version} {event.event}: {event.summary}",
                        metadata=_metadata(event),
                    )

    def reload(self, shown: Sequence[VisibleVersion]) -> list[str]:
        """Reload the code location if its assets differ from the table; returns the result in words."""
        there = {each.version.pipeline: version_text(each.version) for each in shown}
        wanted = {version.pipeline: version_text(version) for version, _ in visible_pipelines(self.home, self.taken)}
        if there == wanted:
            return []
        asked = self.seen.get("reload") or {}
        if asked.get("for") == wanted and time.time() - asked.get("at", 0.0) < RELOAD_AGAIN_S:
            return [asked.get("why", "")]
        self.seen["reload"] = {"for": wanted, "at": time.time(), "why": "a reload of the code location was requested"}
        origin = self.context.code_location_origin
        why = ask_for_reload(origin.location_name if origin is not None else None)
        if why:
            self.seen["reload"]["why"] = f"reload the code location to see the assets of all versions ({why})"
        return [self.seen["reload"]["why"]]


def _label(pipeline: str) -> str:
    """The label of a pipeline in Dagster."""
    return pipeline.replace(".", "_")


def _metadata(event: Event) -> Mapping[str, Any]:
    lists = {name: ", ".join(event.details[name]) for name in ("kept", "begun", "left") if event.details.get(name)}
    return {"version": event.version, "event": event.event, "summary": event.summary, **lists}
