"""What `run()` and `start()` do: triggers, stops, quarantine, idle clocks."""
