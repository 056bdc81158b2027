"""What a user writes, and how it becomes Spark queries."""
