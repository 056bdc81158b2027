"""What Dagster shows of pipelines that are deployed by rows of a table."""
