"""Logs are tested as operators are: a pipeline, some batches, and what came out."""

from tests.operators.conftest import compute, drive, source

__all__ = ["compute", "drive", "source"]
