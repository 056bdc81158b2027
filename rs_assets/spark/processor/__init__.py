"""Stateful processors in Scala, for what Spark's own operators cannot do: their sources, and the jar made of them."""
