"""MQTT: topics as a source, by way of a collector's log, and as a sink."""
