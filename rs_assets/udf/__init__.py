"""Functions of users' own: declared by decorators, called by name in scripts, conditions, SQL and steps."""
