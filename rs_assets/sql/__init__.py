"""Streaming SQL in the dialect of Flink and Blink: statements become the nodes that the fluent API makes."""
