"""Redis: streams as sources; hashes, strings and streams as sinks."""
