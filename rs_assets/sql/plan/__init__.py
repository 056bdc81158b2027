"""Plans SQL queries: clauses become the same topology nodes as the fluent API."""
