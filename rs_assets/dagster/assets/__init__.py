"""What Dagster shows of a pipeline: assets, their descriptions, events and checks."""
