"""Signals that ask a run to end, in this process and between the steps of a run of Dagster."""

import signal
import subprocess
import sys

import pytest
from dagster import (
    DagsterExecutionInterruptedError,
    DagsterInstance,
    DagsterRunStatus,
    In,
    Nothing,
    in_process_executor,
    job,
    op,
)

from rs_assets.common.interrupts import held_back
from rs_assets.dagster.runs.external_runs import run_recorded
from rs_assets.dagster.runs.interrupts import heard_at_terminal
from rs_assets.dagster.runs.orphans import is_gone
from rs_assets.dagster.runs.outcome import BY_HAND
from rs_assets.dagster.sensors.refusals import was_canceled


@pytest.fixture
def instance(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with DagsterInstance.ephemeral() as made:
        yield made


def test_held_back_raises_a_signal_behind_its_block():
    done = []

    def interrupted():
        with held_back():
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["all of it"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_heard_at_terminal_takes_a_signal_for_ctrl_c(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), heard_at_terminal():
        signal.raise_signal(number)
    assert signal.getsignal(number) == before


def test_heard_at_terminal_leaves_what_is_ignored():
    then = (
        "import os, signal\n"
        "from rs_assets.dagster.runs.interrupts import heard_at_terminal\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with heard_at_terminal():\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "print('goes on')\n"
    )
    done = subprocess.run([sys.executable, "-c", then], capture_output=True, text=True, check=True)
    assert done.stdout == "goes on\n"


def interrupted_job(where):
    """A run that is interrupted within its framework: while nobody of ours looks."""

    @op
    def first():
        if where == "between":
            # As Dagster keeps a signal that comes while it may not be interrupted.
            from dagster._utils import interrupts

            interrupts._received_interrupt["received"] = True

    @op(ins={"after": In(Nothing)})
    def second():
        pass

    @job(executor_def=in_process_executor)
    def stream():
        second(first())

    return stream


def test_run_recorded_that_is_interrupted_between_two_steps_is_canceled(instance):
    with pytest.raises((DagsterExecutionInterruptedError, KeyboardInterrupt)):
        run_recorded(interrupted_job("between"), instance, run_config={}, tags={BY_HAND: "start"})
    [run] = instance.get_runs()
    assert run.status == DagsterRunStatus.CANCELED
    assert was_canceled(instance, run.run_id)


def test_run_recorded_that_is_interrupted_before_its_first_step_is_canceled(instance, monkeypatch):
    create = DagsterInstance.create_run_for_job

    def interrupted(*given, **named):
        create(*given, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(DagsterInstance, "create_run_for_job", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_recorded(interrupted_job("never"), instance, run_config={}, tags={BY_HAND: "start"})
    assert [run.status for run in instance.get_runs()] == [DagsterRunStatus.CANCELED]


def test_run_recorded_that_is_killed_as_soon_as_its_run_is_made_is_known_by_its_process(tmp_path, monkeypatch):
    """Also where Dagster keeps its events in files."""
    create = DagsterInstance.create_run_for_job

    def killed(*given, **named):
        create(*given, **named)
        raise MemoryError

    monkeypatch.setattr(DagsterInstance, "create_run_for_job", killed)
    monkeypatch.setattr("rs_assets.common.processes.lives", lambda *_: False)
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        with pytest.raises(MemoryError):
            run_recorded(interrupted_job("never"), instance, run_config={}, tags={BY_HAND: "start"})
        [run] = instance.get_runs()
        assert is_gone(instance, run)
