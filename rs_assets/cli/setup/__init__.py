"""Commands for the first hours: a new project, what the machine lacks, set-up, a check."""
