"""HTTP services as sinks and sources."""
