"""Runs of Dagster: ops, jobs, launches and how each run ends."""
