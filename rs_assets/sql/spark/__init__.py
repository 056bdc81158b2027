"""Spark's dialect of streaming SQL."""
