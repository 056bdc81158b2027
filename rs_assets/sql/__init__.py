"""Streaming SQL in the dialect of Flink and Blink: statements become the same nodes as the fluent API."""
