"""Connectors: sources and sinks, one package a system, and the contracts that they fulfil."""
