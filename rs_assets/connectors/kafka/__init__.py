"""Kafka: the client, the source and the sink."""
