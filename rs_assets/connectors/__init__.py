"""Connectors: sources and sinks, one package a system, and their common interfaces."""
