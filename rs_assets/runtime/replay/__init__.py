"""Reads a batch again: for its dead letters, and for the record that made it fail."""
