"""The operator families: windows, joins, dimensions, shuffles and their state."""
