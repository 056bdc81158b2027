"""Commands that try parts of a pipeline on rows of a file: its rules, and the whole in several ways."""
