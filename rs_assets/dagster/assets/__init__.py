"""A pipeline as assets: their descriptions, events and checks."""
