"""This project's Dagster resources: one module a family, each configured from the environment.

The environment sets the defaults of the runs that Dagster launches; the Launchpad may override them.
"""

from __future__ import annotations

from resources.join import join
from resources.processor import processor
from resources.shuffle import shuffle
from resources.sink import sink
from resources.source import source
from resources.spark import spark
from resources.step import step
from resources.table import table
from resources.window import window

RESOURCES = {
    "spark": spark,
    "source": source,
    "step": step,
    "shuffle": shuffle,
    "window": window,
    "join": join,
    "table": table,
    "processor": processor,
    "sink": sink,
}
