"""The join family: how two streams are joined, and what that means in Spark."""
