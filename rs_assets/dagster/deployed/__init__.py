"""Pipelines that are deployed as rows of a table, in Dagster."""
