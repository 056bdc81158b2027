"""Queries over tables of changes as fluent steps."""
