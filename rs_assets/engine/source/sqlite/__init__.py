"""A table of SQLite as a source: rows that are added, in the order of their keys."""
