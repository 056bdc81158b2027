"""Implements `run()` and `start()`: triggers, stops, quarantine, idle clocks."""
