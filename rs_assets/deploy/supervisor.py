"""Runs one deployed pipeline: the desired version, or the previous one while that cannot run.

A version is on trial from its start until it has committed a batch of input. If it fails before that, the previous
version is started again: from the current checkpoint if both have the same queries, sources and outputs, else from a
savepoint that was taken between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from rs_assets.catalog import requests
from rs_assets.catalog.catalog import Catalog
from rs_assets.catalog.deployments import DeploymentTable, Version, is_name
from rs_assets.catalog.lease import refuse_held
from rs_assets.common.background import LOG
from rs_assets.common.plural import count_of
from rs_assets.deploy.change import Change, options_of
from rs_assets.deploy.checking import checked, left_behind, way_back
from rs_assets.deploy.half_written import undo_half
from rs_assets.deploy.history import Event, Happened, History, Standing, standing
from rs_assets.deploy.progress import Proof, position_of, written_since
from rs_assets.deploy.texts import pipeline_of
from rs_assets.deploy.trial import Trial
from rs_assets.errors import ConfigurationError, LeaseLostError, PipelineBusyError, RsError
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.report import RunReport
from rs_assets.runtime.run.run import start
from rs_assets.runtime.run.running import RunningPipeline
from rs_assets.runtime.upkeep.savepoints import restore, savepoint
from rs_assets.stream.pipeline import Pipeline

# How often the supervisor checks for a request and on a trial, in seconds.
LOOK_S = 0.5
# One start that was killed before its first batch says little about its version; two are enough.
MOST_TRIES = 2
# Another process runs the pipeline: the version is tried again when none does.
NOT_ITS_FAULT = (PipelineBusyError, LeaseLostError)
# The background task that fails while the table or the events cannot be read or written.
NOT_SEEN = "new deployed versions are not seen"
# The remedy if an output cannot go back to the start of a trial.
FORWARD = "deploy a version that can continue from the end of this one"
Begun = Callable[[Version, Pipeline], RunOptions]


class Supervisor:
    """Runs the pipeline `name`; `begun` is called with each version that is started, and returns the options for it.

    `run()` returns the report of the last version when the pipeline is stopped. It raises the error that ended a
    version that had committed, or that keeps every version from being started.
    """

    def __init__(self, name: str, options: RunOptions, begun: Begun | None = None) -> None:
        if not is_name(name):
            raise ConfigurationError(f"{name!r} is not the name of a pipeline", remedy="use namespace.job")
        self.name = name
        self.options = options
        self._begun = begun or (lambda *_: options)
        self._table = DeploymentTable(options.home.deployments)
        self._history = History(Catalog(options.home.catalog))
        self._folder = options.home.job(*name.split(".", 1))
        self._trial: Trial | None = None
        self._proof: Proof | None = None
        self._version: Version | None = None
        self._running: RunningPipeline | None = None

    def computing_s(self) -> float:
        """For how many seconds the current batch has been computed, 0 without one; may be called on any thread."""
        running = self._running
        return running.session.computing_s if running is not None else 0.0

    def run(self) -> RunReport | None:
        """Run until the pipeline is stopped; None if no version of it should run.

        PipelineBusyError if another process runs it; then no event is recorded.
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
        """Drain and stop the running version; its report. A version on trial continues its trial at the next start."""
        report = self._stop()
        if self._trial is not None:
            self._note(self._trial.version, "paused", "stopped before its first batch", **self._trial.details)
            self._trial = None
        return report

    def request_stop(self) -> None:
        """Record, before `stop`, that a person requested the stop."""
        if self._running is not None:
            self._running.session.request_stop()

    def _stop(self, *, drain: bool = True) -> RunReport | None:
        running, self._running = self._running, None
        if running is None:
            return None
        report = running.end(drain=drain)
        if self._trial is not None:
            self._look_at_trial(Proof(self._folder, self._trial.before))
        return report

    def _look(self) -> RunReport | None:
        """Handle a request; the report if it was to stop. While requests cannot be read, the pipeline runs on."""
        assert self._running is not None  # it is looked at while it runs
        failures = self._running.session.failures
        try:
            now = self._asked()
        except RsError as error:
            failures.failed(NOT_SEEN, error)
            requests.ask(self._folder, "change", reason=NOT_SEEN)
            return None
        failures.succeeded(NOT_SEEN)
        return self._change(now) if now is not None else None

    def _asked(self) -> Standing | None:
        """The status of the pipeline, if a change was requested."""
        self._look_at_trial(self._proof)
        if requests.asked(self._folder, "change") is None:
            return None
        requests.clear(self._folder, "change")
        return self._standing()

    def _look_at_trial(self, proof: Proof | None) -> None:
        """End the trial if its version has committed a batch of input."""
        trial = self._trial
        if trial is not None and proof is not None and proof.given():
            self._note(trial.version, "committed", f"it has committed a batch; {trial.change}")
            self._trial = None

    # Changes while a version runs.

    def _change(self, now: Standing) -> RunReport | None:
        """Carry out the newest version; the running version is stopped only for one that passed its checks."""
        desired, runs = now.desired, self._version
        if now.settled or runs is None or (self._trial is not None and desired.same(runs)):
            return None
        if desired.state != "running" and not desired.fault:
            report = self._withdraw(desired)
            self._note(desired, "dropped" if desired.state == "dropped" else "stopped", "it was drained and stopped")
            return report
        if desired.same(runs) or (
            not desired.fault and self._trial is None and desired.says(runs) and not desired.reset
        ):
            self._note(desired, "committed", f"the same statements as version {runs.version}, which keeps running")
            self._version = desired
        else:
            self._replace(desired)
        return None

    def _replace(self, desired: Version) -> None:
        """Replace the running version by `desired`, if that passes its checks."""
        if self._trial is not None and self._trial.savepoint is not None:
            self._withdraw(desired)
        try:
            pipeline, change = checked(desired, self._standing().good, self.options)
        except RsError as error:
            self._refuse(desired, error)
            if self._running is None:
                self._start_before(error)
            return
        self._withdraw(desired)
        self._try(desired, pipeline, change)

    def _withdraw(self, desired: Version) -> RunReport | None:
        """Drain and stop the running version. A trial is rolled back."""
        report = self._stop()
        trial, self._trial = self._trial, None
        if trial is not None:
            left = self._return(trial, self._standing().good)
            self._note(trial.version, "passed", f"version {desired.version} came before its first batch{left}")
        return report

    # Starts.

    def _start_chosen(self) -> None:
        now = self._standing()
        if now.tried is not None and now.trial is not None:
            trial = Trial.of(now.tried, now.trial)
            try:
                now = self._after_a_cut(now, trial, now.trial)
            except RsError as error:
                self._go_forward(now, trial, error)
                return
        chosen = now.chosen
        if chosen is None:
            return
        if chosen.same(now.good):
            self._open(chosen, pipeline_of(chosen), None)
            return
        try:
            pipeline, change = checked(chosen, now.good, self.options)
        except RsError as error:
            self._refuse(chosen, error)
            self._start_before(error)
            return
        self._try(chosen, pipeline, change, again=now.trial)

    def _start_before(self, error: RsError) -> None:
        """Start the previous version; raises `error` if there is none."""
        before = self._standing().before
        if before is None:
            raise error
        self._open(before, pipeline_of(before), None)

    def _after_a_cut(self, now: Standing, trial: Trial, last: Event) -> Standing:
        """The status after a trial or a rollback that was cut short: end it, or have the version tried again."""
        if last.event != "returning" and Proof(self._folder, trial.before).given():
            self._note(trial.version, "committed", "it had committed a batch before its process ended")
        elif last.event == "returning" or now.tries >= MOST_TRIES:
            left = self._return(trial, now.good)
            why = f"its process has ended {count_of(now.tries, 'time')} before its first batch"
            self._note(trial.version, "failed", f"{why}{left}")
        elif not trial.version.same(now.chosen):
            left = self._return(trial, now.good)
            self._note(trial.version, "passed", f"version {now.desired.version} came before its first batch{left}")
        return self._standing()

    def _go_forward(self, now: Standing, trial: Trial, error: RsError) -> None:
        """Start a version that was not handled yet from the end of a trial; raises `error` if there is none.

        The rollback of the trial was refused, and the previous version may have missed rows by now.
        """
        desired = now.desired
        if isinstance(error, NOT_ITS_FAULT):
            raise error
        if now.settled or trial.version.same(desired) or now.chosen is None:
            raise _with_forward(error)
        try:
            pipeline, change = checked(desired, trial.version, self.options)
        except RsError as refused:
            self._refuse(desired, refused)
            raise _with_forward(error) from refused
        self._open(desired, pipeline, change)
        self._note(trial.version, "failed", f"it cannot be rolled back: {_told(error)}")
        self._note(desired, "committed", f"it goes on from where version {trial.version.version} ended; {change}")

    def _try(self, version: Version, pipeline: Pipeline, change: Change, again: Event | None = None) -> None:
        """Start `version` on trial; `again` is the last event of its trial that was cut short."""
        try:
            self._trial = Trial.of(version, again) if again is not None else self._new_trial(version, change)
        except NOT_ITS_FAULT:
            raise
        except RsError as error:
            # Without a savepoint there is no rollback.
            self._refuse(version, error)
            self._start_before(error)
            return
        told = {"kept": change.kept, "begun": change.begun, "left": change.left}
        self._note(version, "trying", self._trial.change, **self._trial.details, **told)
        try:
            self._open(version, pipeline, change)
        except RsError as error:
            self._fall_back(error)

    def _new_trial(self, version: Version, change: Change) -> Trial:
        """A trial; with a savepoint of the previous version if that could not go on from the state this one leaves."""
        before, saved = self._standing().good, None
        good, told = way_back(before), [str(change)]
        if good is not None and before is not None:
            # A batch that failed after its version had committed: one of another version would skip it there.
            kept = undo_half(good, self.options, told.append)
            if kept:
                told.append(f"it stays in {', '.join(sorted(kept))} as version {before.version} wrote it")
        if good is not None and not change.steady:
            saved = savepoint(good, self.options, note=f"before version {version.version}").id
        return Trial(version=version, before=position_of(self._folder), savepoint=saved, change="; ".join(told))

    def _open(self, version: Version, pipeline: Pipeline, change: Change | None) -> None:
        options = self._begun(version, pipeline)
        self._running = start(pipeline.topology, options if change is None else options_of(version, change, options))
        self._version = version
        if self._trial is not None:
            self._proof = Proof(self._folder, self._trial.before, self._running)

    # Rollback.

    def _fall_back(self, error: RsError) -> None:
        """Start the previous version again after a failed trial; raises errors that are not the version's fault."""
        if isinstance(error, NOT_ITS_FAULT):
            raise error
        with suppress(RsError):
            self._stop(drain=False)
        trial, self._trial = self._trial, None
        if trial is None:
            raise error
        now = self._standing()
        try:
            left = self._return(trial, now.good)
        except RsError as refused:
            why = f"{_told(error)}; the rollback is refused: {_told(refused)}; {FORWARD}"
            self._note(trial.version, "returning", why, **trial.details)
            raise _with_forward(refused) from error
        back = f"version {now.before.version} runs again" if now.before is not None else "no version ran before it"
        self._note(trial.version, "failed", f"{_told(error)}; {back}{left}")
        self._start_before(error)

    def _return(self, trial: Trial, good: Version | None) -> str:
        """Roll back the trial; text about the rows that stay.

        Checkpoint and sinks are restored, unless the change was steady: then a batch is undone that the version has
        written to some outputs only, and rows of its other queries stay.
        """
        if trial.savepoint is not None and good is not None:
            self._note(trial.version, "returning", f"to savepoint {trial.savepoint}", **trial.details)
            restore(pipeline_of(good).topology, self.options, savepoint_id=trial.savepoint)
            return left_behind(trial.version, good, frozenset())
        written, topology = written_since(self._folder, trial.before), way_back(good) or way_back(trial.version)
        if topology is not None:
            told = partial(self._note, trial.version, "returning", **trial.details)
            written |= undo_half(topology, self.options, told)
        return left_behind(trial.version, good, written)

    def _refuse(self, version: Version, error: RsError) -> None:
        self._note(version, "refused", _told(error))

    def _standing(self) -> Standing:
        versions = self._table.of(self.name)
        if not versions:
            raise ConfigurationError(f"no version of {self.name} is deployed", remedy="rs-assets deploy FILE")
        return standing(versions, self._history.of(self.name))

    def _note(self, version: Version, happened: Happened, summary: str, **details: object) -> None:
        self._history.note(Event.about(version, happened, summary, run_id=self.options.run_id, **details))
        tell = LOG.warning if happened in ("refused", "failed", "returning") else LOG.info
        tell("version %d of %s: %s: %s", version.version, self.name, happened, summary)


def _with_forward(error: RsError) -> RsError:
    """The refusal of a rollback, with the way that a deployed pipeline has besides: another version."""
    error.remedy = f"{FORWARD}; or, if the rollback can be made possible: {error.remedy}"
    return error


def _told(error: RsError) -> str:
    return f"{type(error).__name__}: {error}"
