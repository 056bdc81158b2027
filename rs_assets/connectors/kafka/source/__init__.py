"""Kafka as a source: records by Spark's connector, offsets, and what may go wrong with them."""
