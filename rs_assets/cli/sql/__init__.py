"""Commands for streaming SQL: a file of it, a session, versions for deployment."""
