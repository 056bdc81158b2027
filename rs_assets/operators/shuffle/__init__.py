"""The shuffle family: distribution of rows over partitions."""
