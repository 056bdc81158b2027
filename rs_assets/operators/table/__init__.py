"""The table family: the current row of each key, and the steps whose rows change with it."""
