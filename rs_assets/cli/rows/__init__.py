"""Commands that show rows: of tables, of stores, and of state."""
