"""Functions are tested as operators are: a pipeline, some batches, and what came out."""

from tests.operators.conftest import drive, source

__all__ = ["drive", "source"]
