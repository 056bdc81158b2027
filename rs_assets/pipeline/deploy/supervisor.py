"""Runs one deployed pipeline: the version that is wished for, and the one before it as long as that does not run.

A version is on trial from its start until it has committed a batch. If it fails before that, the version before is
started again: from where the checkpoint stands if both have the same queries and sources, else from a savepoint that
was taken between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from rs_assets.engine.background import LOG
from rs_assets.engine.checkpoint import requests
from rs_assets.engine.checkpoint.catalog import Catalog
from rs_assets.engine.checkpoint.deployments import DeploymentTable, Version
from rs_assets.engine.checkpoint.lease import refuse_held
from rs_assets.errors import ConfigurationError, LeaseLostError, PipelineBusyError, RsError
from rs_assets.pipeline.deploy.change import Change, change_of, moved_sources, options_of
from rs_assets.pipeline.deploy.history import Event, Happened, History, Standing, standing
from rs_assets.pipeline.deploy.progress import advanced, position_of
from rs_assets.pipeline.deploy.texts import pipeline_of
from rs_assets.pipeline.deploy.trial import Trial
from rs_assets.pipeline.runtime.job.analysis import analyse
from rs_assets.pipeline.runtime.options import RunOptions
from rs_assets.pipeline.runtime.report import RunReport
from rs_assets.pipeline.runtime.run.run import start
from rs_assets.pipeline.runtime.run.running import RunningPipeline
from rs_assets.pipeline.runtime.upkeep.travel import restore, savepoint
from rs_assets.pipeline.stream.pipeline import Pipeline

# How often the supervisor looks for a request and at a trial, in seconds.
LOOK_S = 0.5
# A start that was killed before its first batch says little about its version; two say enough.
MOST_TRIES = 2
# Somebody else runs the pipeline: the version is tried again when nobody does.
NOT_ITS_FAULT = (PipelineBusyError, LeaseLostError)
Begun = Callable[[Version, Pipeline], RunOptions]


class Supervisor:
    """Runs the pipeline called `name`; `begun` is told of each version that is started, and gives the options for it.

    `run()` returns the report of the last version once the pipeline is to be stopped or was asked to. It raises what
    ended a version that had committed, and what keeps every version from being started.
    """

    def __init__(self, name: str, options: RunOptions, begun: Begun | None = None) -> None:
        self.name = name
        self.options = options
        self._begun = begun or (lambda *_: options)
        self._table = DeploymentTable(options.home.deployments)
        self._history = History(Catalog(options.home.catalog))
        self._folder = options.home.job(*name.split(".", 1))
        self._trial: Trial | None = None
        self._version: Version | None = None
        self._running: RunningPipeline | None = None

    def run(self) -> RunReport | None:
        """Run until the pipeline is to be stopped; None if no version of it is to run.

        PipelineBusyError if somebody else runs it; then nothing is told of any version.
        """
        refuse_held(self.options.home.leases, self.name)
        requests.clear(self._folder, "change")
        report: RunReport | None = None
        self._start_chosen()
        while self._running is not None:
            try:
                report = self.stop() if self._running.await_termination(timeout_s=LOOK_S) else self._look()
            except RsError as error:
                if self._trial is None:
                    raise
                self._fall_back(error)
        return report

    def stop(self) -> RunReport | None:
        """Drain and stop what runs; its report. A version on trial goes on with that at the next start."""
        report = self._stop()
        if self._trial is not None:
            self._note(self._trial.version, "paused", "stopped before its first batch", **self._trial.details)
            self._trial = None
        return report

    def _stop(self, *, drain: bool = True) -> RunReport | None:
        running, self._running = self._running, None
        if running is None:
            return None
        report = running.stop(drain=drain)
        self._look_at_trial(running)
        return report

    def _look(self) -> RunReport | None:
        """Do what is asked for; the report if that was to stop."""
        self._look_at_trial(self._running)
        if requests.asked(self._folder, "change") is None:
            return None
        requests.clear(self._folder, "change")
        return self._change()

    def _look_at_trial(self, running: RunningPipeline | None) -> None:
        """End the trial if its version has committed a batch."""
        trial = self._trial
        if trial is not None and advanced(self._folder, trial.before, running):
            self._trial = None
            self._note(trial.version, "committed", f"it has committed a batch; {trial.change}")

    # Changes while a version runs.

    def _change(self) -> RunReport | None:
        """Do what the newest version wishes for; the one that runs is stopped only for one that passed its checks."""
        now = self._standing()
        wished, runs = now.wished, self._version
        if now.settled or runs is None or wished.version == runs.version:
            return None
        if wished.state != "running" and not wished.fault:
            report = self._withdraw(wished)
            self._note(wished, "dropped" if wished.state == "dropped" else "stopped", "it was drained and stopped")
            return report
        if not wished.fault and self._trial is None and wished.says(runs) and not wished.reset:
            self._note(wished, "committed", f"the same statements as version {runs.version}, which runs on")
            self._version = wished
        else:
            self._replace(wished)
        return None

    def _replace(self, wished: Version) -> None:
        """Put `wished` in the place of what runs, if it passes its checks."""
        if self._trial is not None and self._trial.savepoint is not None:
            self._withdraw(wished)
        try:
            pipeline, change = self._checked(wished)
        except RsError as error:
            self._refuse(wished, error)
            if self._running is None:
                self._start_good(error)
            return
        self._withdraw(wished)
        self._try(wished, pipeline, change)

    def _withdraw(self, wished: Version) -> RunReport | None:
        """Drain and stop what runs. What a version on trial has begun is taken back."""
        report = self._stop()
        trial, self._trial = self._trial, None
        if trial is not None:
            self._return(trial, self._standing().good)
            self._note(trial.version, "passed", f"version {wished.version} came before its first batch")
        return report

    def _checked(self, version: Version) -> tuple[Pipeline, Change]:
        """The pipeline of a version that Spark accepts and whose state would fit. UserError, StartRefused else."""
        pipeline = pipeline_of(version)
        change = change_of(pipeline.topology, version, self.options)
        good = self._standing().good
        if good is not None and not good.fault:
            change = replace(change, moved=moved_sources(pipeline_of(good).topology, pipeline.topology))
        if pipeline.topology.shuffled and not change.steady:
            raise ConfigurationError(
                f"a pipeline with a durable shuffle cannot go back to the version before, and this one {change}",
                remedy="drop the pipeline, and deploy this version under another name",
            )
        analyse(pipeline.topology, self.options.driver)
        return pipeline, change

    # Starts.

    def _start_chosen(self) -> None:
        now = self._standing()
        if now.tried is not None and now.trial is not None:
            now = self._after_a_cut(now, Trial.of(now.tried, now.trial), now.trial)
        chosen = now.chosen
        if chosen is None:
            return
        if now.good is not None and chosen.version == now.good.version:
            self._open(chosen, pipeline_of(chosen), None)
            return
        try:
            pipeline, change = self._checked(chosen)
        except RsError as error:
            self._refuse(chosen, error)
            self._start_good(error)
            return
        self._try(chosen, pipeline, change, again=now.trial)

    def _start_good(self, error: RsError) -> None:
        """Start the last version that has committed a batch; raises `error` if there is none."""
        good = self._standing().good
        if good is None:
            raise error
        self._open(good, pipeline_of(good), None)

    def _after_a_cut(self, now: Standing, trial: Trial, last: Event) -> Standing:
        """Where the pipeline stands if a trial or a return was cut short: end it, or have the version tried again."""
        if last.event != "returning" and advanced(self._folder, trial.before):
            self._note(trial.version, "committed", "it had committed a batch before its process ended")
        elif last.event == "returning" or now.tries >= MOST_TRIES:
            self._return(trial, now.good)
            self._note(trial.version, "failed", f"its process has ended {now.tries} times before its first batch")
        elif now.chosen is None or now.chosen.version != trial.version.version:
            self._return(trial, now.good)
            self._note(trial.version, "passed", f"version {now.wished.version} came before its first batch")
        return self._standing()

    def _try(self, version: Version, pipeline: Pipeline, change: Change, again: Event | None = None) -> None:
        """Start `version` on trial; `again` tells of a trial of it that was cut short."""
        try:
            self._trial = Trial.of(version, again) if again is not None else self._new_trial(version, change)
        except RsError as error:
            # Without a savepoint there is no way back.
            self._refuse(version, error)
            self._start_good(error)
            return
        told = {"kept": change.kept, "begun": change.begun, "left": change.left}
        self._note(version, "trying", self._trial.change, **self._trial.details, **told)
        try:
            self._open(version, pipeline, change)
        except RsError as error:
            self._fall_back(error)

    def _new_trial(self, version: Version, change: Change) -> Trial:
        """A trial, with a savepoint of the version before where that could not go on with what this one leaves."""
        good, saved = self._standing().good, None
        if good is not None and not change.steady:
            note = f"before version {version.version}"
            saved = savepoint(pipeline_of(good).topology, self.options, note=note).id
        return Trial(version=version, before=position_of(self._folder), savepoint=saved, change=str(change))

    def _open(self, version: Version, pipeline: Pipeline, change: Change | None) -> None:
        options = self._begun(version, pipeline)
        self._running = start(pipeline.topology, options if change is None else options_of(version, change, options))
        self._version = version

    # The way back.

    def _fall_back(self, error: RsError) -> None:
        """Start the version before again, since the one on trial has ended; raises what is not the version's fault."""
        if isinstance(error, NOT_ITS_FAULT):
            raise error
        with suppress(RsError):
            self._stop(drain=False)
        trial, self._trial = self._trial, None
        if trial is None:
            raise error
        good = self._standing().good
        self._return(trial, good)
        back = f"version {good.version} runs again" if good is not None else "there is no version before it"
        self._note(trial.version, "failed", f"{_told(error)}; {back}")
        self._start_good(error)

    def _return(self, trial: Trial, good: Version | None) -> None:
        """Bring the checkpoint and the sinks back to where the trial began, if it was not steady."""
        if trial.savepoint is not None and good is not None:
            self._note(trial.version, "returning", f"to savepoint {trial.savepoint}", **trial.details)
            restore(pipeline_of(good).topology, self.options, savepoint_id=trial.savepoint)

    def _refuse(self, version: Version, error: RsError) -> None:
        self._note(version, "refused", _told(error))

    def _standing(self) -> Standing:
        versions = self._table.of(self.name)
        if not versions:
            raise ConfigurationError(f"no version of {self.name} is deployed", remedy="rs-assets deploy FILE")
        return standing(versions, self._history.of(self.name))

    def _note(self, version: Version, happened: Happened, summary: str, **details: object) -> None:
        self._history.note(
            Event(
                pipeline=self.name,
                version=version.version,
                event=happened,
                summary=summary,
                details=details,
                run_id=self.options.run_id,
            )
        )
        tell = LOG.warning if happened in ("refused", "failed", "returning") else LOG.info
        tell("version %d of %s: %s: %s", version.version, self.name, happened, summary)


def _told(error: RsError) -> str:
    return f"{type(error).__name__}: {error}"
