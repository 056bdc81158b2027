"""Reads a batch again: for its late rows, its dead letters, and the record that made it fail."""
