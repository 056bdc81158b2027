"""Joins of SQL as fluent steps."""
