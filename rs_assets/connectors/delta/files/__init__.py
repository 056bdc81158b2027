"""The files of a Delta table: staged, named, with statistics, by partition."""
