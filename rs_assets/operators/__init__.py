"""The operator families: windows, joins, dimensions, shuffles and the state they keep."""
