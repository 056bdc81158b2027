"""User-defined sources: a log with offsets, and a poller whose rows are spooled first."""
