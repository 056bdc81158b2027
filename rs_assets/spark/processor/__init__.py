"""Stateful processors in Scala for operators that Spark lacks: sources, and the jar compiled from them."""
