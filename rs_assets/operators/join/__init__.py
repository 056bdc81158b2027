"""The join family: joins of two streams, and their translation to Spark."""
