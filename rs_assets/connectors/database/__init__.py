"""Databases by URL as sinks and sources: Postgres by COPY, others by SQLAlchemy."""
