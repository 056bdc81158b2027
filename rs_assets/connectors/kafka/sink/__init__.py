"""Kafka as a sink: rows as records, at least once by Spark's connector or exactly once by transactions."""
