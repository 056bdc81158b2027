"""This project's Dagster resources: one module a family, each configured from the environment.

The environment sets the defaults of the runs that Dagster launches; the Launchpad may override them.
"""

from __future__ import annotations

from resources.join import join
from resources.shuffle import shuffle
from resources.sink import sink
from resources.source import source
from resources.spark import spark
from resources.window import window

RESOURCES = {"spark": spark, "source": source, "shuffle": shuffle, "window": window, "join": join, "sink": sink}
