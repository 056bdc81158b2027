"""Where the run of a stream comes from, and which sensor starts that stream again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from dagster import (
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    JobDefinition,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorResult,
    SkipReason,
    build_sensor_context,
)

from rs_assets import Pipeline, StreamBuilder, build_definitions, deployed_definitions
from rs_assets.catalog.desired_state import request_run
from rs_assets.catalog.lease import held_lease
from rs_assets.common.home import Home
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.resources.spark import SparkResource
from rs_assets.dagster.runs.external_runs import run_recorded
from rs_assets.dagster.runs.launch import LaunchRequest, launch
from rs_assets.dagster.sensors import recovery_sensor
from rs_assets.deploy.deployments import Deployments
from rs_assets.runtime.run.standby import Standby

QUIET = {"config": {"log_level": "CRITICAL"}}
SPARK = {"config": {"share": True}}
SQL = """
CREATE TABLE lines (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json');
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'delta', 'table' = 'numbers');
INSERT INTO numbers SELECT n FROM lines
"""
# Between two ticks of the sensor that runs beside a stream.
TICK_S = 0.3


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream over a folder with a few lines; the environment names the home and that of Dagster."""

    pipeline: Pipeline
    folder: Path

    @classmethod
    def made(cls, number: int, place: Path) -> Stream:
        """That of a case, with its input below `place`."""
        folder = place / "in"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "a.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
        source = StreamBuilder.data_stream("shop", f"stream{number}").from_file(folder, schema="n bigint", tail=True)
        return cls(source.to_delta("numbers").build(), folder)

    @property
    def name(self) -> str:
        return self.pipeline.name

    @property
    def job(self) -> JobDefinition:
        """The job that Dagster starts the stream with."""
        built = build_definitions([self.pipeline], {"spark": SparkResource(share=True)})
        return built.resolve_job_def(f"{self.pipeline.topology.label}_start")

    def newest(self, instance: DagsterInstance) -> DagsterRun | None:
        """The newest run of the stream; None before one is recorded."""
        return next(iter(instance.get_runs(RunsFilter(tags={"rs/pipeline": self.name}), limit=1)), None)

    def lost(self, instance: DagsterInstance) -> None:
        """The stream has run, and its process was killed."""
        job = self.job
        run = instance.create_run_for_job(job, tags=job.run_tags, status=DagsterRunStatus.FAILURE)
        home = Home.default()
        with held_lease(home.leases, pipeline=self.name, run_id=run.run_id):
            request_run(home.job(*self.name.split(".")), run.run_id)


# The start of a run, for which all is ready.
Start = Callable[[], object]


def _at_terminal(stream: Stream) -> Start:
    return partial(launch, stream.pipeline, "start")


def _by_dagster(stream: Stream) -> Start:
    return partial(_recorded, stream.job, {"loggers": {"console": QUIET}}, {})


def _by_recovery(stream: Stream) -> Start:
    with DagsterInstance.get() as instance:
        stream.lost(instance)
        request = asked(recovery(stream), instance)
    return partial(_recorded, stream.job, {"loggers": {"console": QUIET}}, request.tags)


def _by_standby(stream: Stream) -> Start:
    with DagsterInstance.get() as instance:
        stream.lost(instance)
    return partial(_stood_by, stream.pipeline)


def _stood_by(pipeline: Pipeline) -> None:
    """Without the preparation: its trial, in a home of its own, comes to the same phases."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Standby, "prepare", lambda _: None)
        launch(pipeline, "start", request=LaunchRequest(standby=True))


def _deployed(stream: Stream) -> Start:
    Deployments().deploy(stream.name, SQL.format(folder=stream.folder))
    with DagsterInstance.get() as instance:
        request = asked(deployments(stream), instance)
    config = {**request.run_config, "resources": {"rs_spark": SPARK}, "loggers": {"console": QUIET}}
    return partial(_recorded, deployed_definitions().resolve_job_def("rs_deployed"), config, request.tags)


def _recorded(job: JobDefinition, config: Mapping[str, Any], tags: Mapping[str, str]) -> None:
    with DagsterInstance.get() as instance:
        run_recorded(job, instance, run_config=config, tags=tags)


# Runs at a terminal get signals of a person, the others get those of Dagster.
AT_TERMINAL: dict[str, Callable[[Stream], Start]] = {"a terminal": _at_terminal, "a standby": _by_standby}
OF_DAGSTER: dict[str, Callable[[Stream], Start]] = {
    "Dagster": _by_dagster,
    "recovery": _by_recovery,
    "deployments": _deployed,
}
STARTS = AT_TERMINAL | OF_DAGSTER


def recovery(stream: Stream) -> SensorDefinition:
    """The sensor that starts a stream of code again."""
    sensor = recovery_sensor(StreamAssets.of(stream.pipeline))
    assert sensor is not None
    return sensor


def deployments(stream: Stream) -> SensorDefinition:
    """The sensor that starts a deployed stream again."""
    return deployed_definitions().resolve_sensor_def("rs_deployments")


def sensor_of(origin: str, stream: Stream) -> SensorDefinition:
    """The sensor that starts the stream again."""
    return (deployments if origin == "deployments" else recovery)(stream)


def tick(sensor: SensorDefinition, instance: DagsterInstance, cursor: str | None = None) -> SensorResult | SkipReason:
    """One look of a sensor."""
    result = sensor(build_sensor_context(instance=instance, cursor=cursor))
    assert isinstance(result, SensorResult | SkipReason)
    return result


def requests_of(result: SensorResult | SkipReason) -> list[RunRequest]:
    """The runs that a look asks for."""
    return list(result.run_requests or ()) if isinstance(result, SensorResult) else []


def asked(sensor: SensorDefinition, instance: DagsterInstance) -> RunRequest:
    """The run that the sensor asks for now."""
    [request] = requests_of(tick(sensor, instance))
    return request


class StopByTable:
    """`rs-assets deploy --stop`: a row in the table of deployments, which the sensor finds while the stream runs."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._end = Event()
        self._ticks = Thread(target=self._tick, daemon=True)
        self.requested: list[RunRequest] = []

    def strike(self) -> None:
        """Write the row; the sensor looks again and again until `end`."""
        Deployments().stop(self._stream.name)
        self._ticks.start()

    def _tick(self) -> None:
        sensor, cursor = deployments(self._stream), None
        with DagsterInstance.get() as instance:
            while not self._end.wait(TICK_S):
                result = tick(sensor, instance, cursor)
                self.requested += requests_of(result)
                cursor = result.cursor if isinstance(result, SensorResult) else cursor

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Within this block the sensor may look."""
        try:
            yield
        finally:
            self._end.set()
            with suppress(RuntimeError):
                self._ticks.join()
