"""The sensors of a pipeline: new input, changed splits, checkpoints, recovery, rescaling, freshness, alerts."""

from __future__ import annotations

from dataclasses import dataclass, field

from dagster import SensorDefinition

from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.sensors.alerts import Alert, OnAlert, alert_sensor
from rs_assets.dagster.sensors.checkpoints import checkpoint_sensor
from rs_assets.dagster.sensors.freshness import freshness_sensor
from rs_assets.dagster.sensors.new_input import new_input_sensor
from rs_assets.dagster.sensors.partitions import partition_sensor
from rs_assets.dagster.sensors.recovery import RecoveryPolicy, recovery_sensor
from rs_assets.dagster.sensors.rescaling import RescalePolicy, rescale_sensor
from rs_assets.dagster.sensors.splits import split_change_sensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """How pipelines are watched, as `build_definitions` describes it."""

    events: bool = True
    rescale: RescalePolicy | None = field(default_factory=RescalePolicy)
    recovery: RecoveryPolicy = field(default_factory=RecoveryPolicy)
    on_alert: OnAlert | None = None


def sensors_of(assets: StreamAssets, watching: Watching = Watching()) -> list[SensorDefinition]:
    """All sensors of a pipeline; without those that have nothing to watch."""
    policy, events = watching.rescale, watching.events
    made = (
        new_input_sensor(assets),
        *events_of(assets, watching),
        recovery_sensor(assets, watching.recovery),
        rescale_sensor(assets, policy, running=events) if policy is not None else None,
        freshness_sensor(assets),
        alert_sensor(assets, watching.on_alert) if watching.on_alert is not None else None,
    )
    return [sensor for sensor in made if sensor is not None]


def events_of(assets: StreamAssets, watching: Watching = Watching()) -> list[SensorDefinition]:
    """The sensors that report events of the assets."""
    sensors = (split_change_sensor, checkpoint_sensor, partition_sensor)
    made = (make(assets, running=watching.events) for make in sensors)
    return [sensor for sensor in made if sensor is not None]


__all__ = [
    "Alert",
    "RecoveryPolicy",
    "RescalePolicy",
    "Watching",
    "alert_sensor",
    "checkpoint_sensor",
    "events_of",
    "freshness_sensor",
    "new_input_sensor",
    "partition_sensor",
    "recovery_sensor",
    "rescale_sensor",
    "sensors_of",
    "split_change_sensor",
]
