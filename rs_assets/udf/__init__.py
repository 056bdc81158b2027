"""User-defined functions: declared by decorators, called by name in scripts, conditions, SQL and steps."""
