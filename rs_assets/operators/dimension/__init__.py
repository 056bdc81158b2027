"""Dimensions: slowly changing tables for lookups from streams, kept as immutable versions."""
