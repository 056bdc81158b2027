"""What Dagster shows of pipelines: ops, assets, jobs, sensors, schedules and checks."""
