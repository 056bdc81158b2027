"""Pipelines in Dagster: ops, assets, jobs, sensors, schedules and checks."""
