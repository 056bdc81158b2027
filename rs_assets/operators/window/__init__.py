"""The window family: assignment of rows to windows, aggregation, and firing."""
