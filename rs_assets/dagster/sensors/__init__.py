"""The sensors of a pipeline: new input, changed splits, checkpoints, recovery, rescaling, freshness, alerts."""

from __future__ import annotations

from collections.abc import Callable

from dagster import SensorDefinition

from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.sensors.alerts import Alert, OnAlert, alert_sensor
from rs_assets.dagster.sensors.checkpoints import checkpoint_sensor
from rs_assets.dagster.sensors.freshness import freshness_sensor
from rs_assets.dagster.sensors.new_input import new_input_sensor
from rs_assets.dagster.sensors.recovery import recovery_sensor
from rs_assets.dagster.sensors.rescaling import rescale_sensor
from rs_assets.dagster.sensors.splits import split_change_sensor

# Each returns the sensor of one pipeline, or None if there is nothing to watch.
SENSORS: tuple[Callable[[StreamAssets], SensorDefinition | None], ...] = (
    new_input_sensor,
    split_change_sensor,
    checkpoint_sensor,
    recovery_sensor,
    rescale_sensor,
    freshness_sensor,
)


def sensors_of(assets: StreamAssets, on_alert: OnAlert | None = None) -> list[SensorDefinition]:
    """All sensors of a pipeline; that of alerts only with `on_alert`."""
    made = (*(make(assets) for make in SENSORS), alert_sensor(assets, on_alert) if on_alert else None)
    return [sensor for sensor in made if sensor is not None]


__all__ = [
    "Alert",
    "alert_sensor",
    "checkpoint_sensor",
    "freshness_sensor",
    "new_input_sensor",
    "recovery_sensor",
    "rescale_sensor",
    "sensors_of",
    "split_change_sensor",
]
