"""The project's own pipelines."""
