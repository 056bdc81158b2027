"""Streams of Redis as a source: entries by their ids."""
