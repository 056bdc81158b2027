"""SQL queries: clauses that become the same topology nodes as the fluent API's."""
