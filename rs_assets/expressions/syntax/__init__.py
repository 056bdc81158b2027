"""Shared by conditions and scripts: positions in a text, values, calls."""
