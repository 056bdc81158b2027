"""Dimensions: slowly changing tables that streams look rows up in, kept as immutable versions."""
