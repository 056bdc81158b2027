"""Spark's environment: jars, Java and session."""
