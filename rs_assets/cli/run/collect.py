"""`rs-assets collect`: receives what systems send only once, as a process of its own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from typing import Any

import click

from rs_assets.cli.base import MODULES, NAME_OR_NONE, chosen, guarded
from rs_assets.common.home import Home
from rs_assets.connectors.collector.nodes import CollectedSource
from rs_assets.connectors.registry import SOURCES
from rs_assets.errors import ConfigurationError
from rs_assets.stream.pipeline import Pipeline


@click.command()
@NAME_OR_NONE
@click.option("--source", "only", help="Only this source (default: all that need a collector).")
@MODULES
@guarded
def collect(name: str | None, only: str | None, modules: tuple[str, ...]) -> None:
    """Receive messages of MQTT, webhooks and syslog for a pipeline, until Ctrl-C. Needs no Spark."""
    sources = collected_sources(chosen(modules, name), only)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    failures: list[BaseException] = []
    threads = [
        threading.Thread(target=_run, args=(source, stop, failures), name=f"rs-collect-{source.name}")
        for source in sources.values()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def collected_sources(pipeline: Pipeline, only: str | None) -> Mapping[str, CollectedSource]:
    """The sources of a pipeline that need a collector; ConfigurationError if there is none, or none called `only`."""
    found = {node.name: node for node in pipeline.topology.sources if isinstance(node, CollectedSource)}
    if only is not None and only not in found:
        raise ConfigurationError(
            f"{pipeline.name} has no source {only!r} that needs a collector",
            remedy=f"name one of: {', '.join(found) or 'none'}",
        )
    if not found:
        raise ConfigurationError(f"{pipeline.name} has no source that needs a collector")
    return found if only is None else {only: found[only]}


def _run(source: CollectedSource, stop: threading.Event, failures: list[BaseException]) -> None:
    from rs_assets.connectors.collector.collecting import Fatal, collect
    from rs_assets.connectors.collector.writing import LogWriter

    make: Any = SOURCES[type(source)].collector
    try:
        collect(make(source), LogWriter(source.folder(Home.default())), stop, lambda *state: _tell(source.name, *state))
    except Fatal as error:
        failures.append(error.__cause__ or error)
        stop.set()


def _tell(source: str, state: str, problem: str) -> None:
    click.echo(f"{source}: {state}{f' ({problem})' if problem else ''}")
