"""Kafka topics as tables of SQL."""

from rs_assets.sql.systems.kafka.tables import SINK, SOURCE

__all__ = ["SINK", "SOURCE"]
