"""Collectors: what systems send once is written to a log on the disk before it is acknowledged, and read from there."""
