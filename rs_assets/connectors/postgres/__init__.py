"""Tables of Postgres as sources: their rows, then each change, from a logical replication slot."""
