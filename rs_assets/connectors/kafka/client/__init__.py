"""Kafka as sources, sinks and shuffles share it: how a cluster is reached, and what is asked of it."""
