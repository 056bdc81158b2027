"""This project's own pipelines."""
