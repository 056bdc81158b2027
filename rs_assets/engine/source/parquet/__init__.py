"""Parquet files as a source."""
