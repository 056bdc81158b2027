"""The operator families as Dagster resources."""
