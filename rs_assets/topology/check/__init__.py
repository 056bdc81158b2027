"""Checks fields and types when a pipeline is written; rejects only what Spark would certainly reject."""
