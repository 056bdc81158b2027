"""Kafka as a source: records by Spark's connector, their offsets, and losses."""
