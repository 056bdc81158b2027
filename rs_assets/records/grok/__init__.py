"""Grok: named patterns of log lines, and what they make fields of."""
