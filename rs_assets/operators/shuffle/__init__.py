"""The shuffle family: how rows are spread over partitions."""
