"""Spark's spelling of streaming SQL, for statements that are written in its dialect."""
