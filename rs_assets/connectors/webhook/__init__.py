"""Requests of HTTP as a source, by way of a collector's log."""
