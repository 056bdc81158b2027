"""Stores: the current rows of a table or a keyed stream, for lookups while the pipeline runs."""
