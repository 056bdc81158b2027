"""The command line `rs-assets`."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from rs_assets.cli.base import AS_JSON, MODULES, NAME_OR_NONE, chosen, guarded, known
from rs_assets.cli.lazy import LazyGroup
from rs_assets.cli.sections import SECTIONS
from rs_assets.common.extras import check_extra
from rs_assets.common.home import Home
from rs_assets.common.loading import uncollected
from rs_assets.common.project import project_folder
from rs_assets.dagster.discovery import find_pipelines, split_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rs_assets.stream.pipeline import Pipeline


# The commands of other modules, by room.
COMMANDS = {
    "checks.rules": ("rules",),
    "checks.torture": ("torture",),
    "recorded.capture": ("capture",),
    "recorded.dead_letters": ("dead-letters", "redrive"),
    "recorded.partitions": ("partitions", "backfill", "try", "promote", "prove", "audit"),
    "recorded.why": ("why", "records-of", "lineage"),
    "rows.queries": ("stores", "query", "serve"),
    "rows.state": ("state",),
    "rows.tables": ("show",),
    "run.collect": ("collect",),
    "run.lag": ("lag",),
    "setup.project": ("init", "doctor", "setup", "check"),
    "sql.deploy": ("deploy", "deployments"),
    "sql.file": ("sql",),
    "upkeep.checkpoints": ("verify", "checkpoints", "rescale"),
    "upkeep.compaction": ("compact",),
    "upkeep.forget": ("forget",),
    "upkeep.savepoints": ("savepoint", "restore", "rewind", "fork"),
}
HOMES = {command: f"rs_assets.cli.{module}" for module, commands in COMMANDS.items() for command in commands}


@click.group(cls=LazyGroup, homes=HOMES, sections=SECTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rs-assets")
def main() -> None:
    """Stream pipelines as Dagster assets, on Spark. Each command has a --help of its own."""


@main.command("list")
@MODULES
@AS_JSON
@guarded
def list_pipelines(modules: tuple[str, ...], as_json: bool) -> None:
    """List the configured pipelines."""
    rows = [
        {
            "pipeline": p.name,
            "sources": [s.name for s in p.topology.origins],
            "stateful": [n.name for n in p.topology if n.stateful],
            "sinks": [s.name for s in p.topology.sinks if s.family == "sink"],
            "bounded": p.topology.bounded,
        }
        for p in find_pipelines(modules)
    ]
    if as_json:
        click.echo(json.dumps(rows))
        return
    width = max((len(str(row["pipeline"])) for row in rows), default=8)
    for row in rows:
        ways = [", ".join(names) or "-" for names in (row["sources"], row["stateful"], row["sinks"])]  # type: ignore[arg-type]
        click.echo(f"{row['pipeline']:<{width}}  {' -> '.join(ways)}  {'bounded' if row['bounded'] else 'unbounded'}")


@main.command()
@NAME_OR_NONE
@click.option("--mermaid", is_flag=True, help="As a Mermaid graph.")
@MODULES
@guarded
def describe(name: str | None, modules: tuple[str, ...], mermaid: bool) -> None:
    """Show the steps of a pipeline."""
    click.echo(chosen(modules, name).describe(mermaid=mermaid))


@main.command()
@NAME_OR_NONE
@click.option("--finish", is_flag=True, help="Fire all open windows: the input is at its end.")
@click.option("--new-generation", is_flag=True, help="Begin a fresh checkpoint and read the input again.")
@click.option("--reset-step", "reset_steps", multiple=True, help="Forget the state of this step only.")
@click.option("--keep-state", is_flag=True, help="Use state that another version of the pipeline wrote, as it is.")
@click.option("--plain", is_flag=True, help="Without Dagster: no run is recorded.")
@MODULES
@AS_JSON
@guarded
def run(name: str | None, modules: tuple[str, ...], *, plain: bool, as_json: bool, **request: Any) -> None:
    """Process all input there is, through Dagster, and show the results. A single pipeline needs no name."""
    with uncollected():
        pipeline = chosen(modules, name)
        # The settings of Java come first: they hold also for a Spark that starts later.
        _prepare(_java_of_run(pipeline, request), unless=lambda: _seems_unchanged(pipeline, request))
        from rs_assets.cli.run.console import run_and_show
        from rs_assets.dagster.runs.launch import LaunchRequest

    run_and_show(pipeline, LaunchRequest(**request), plain=plain, as_json=as_json)


@main.command()
@NAME_OR_NONE
@MODULES
@guarded
def start(name: str | None, modules: tuple[str, ...]) -> None:
    """Process input as it comes, through Dagster, until Ctrl-C, which drains and stops."""
    pipeline = chosen(modules, name)
    _prepare()
    from rs_assets.cli.run.console import start_and_watch

    start_and_watch(pipeline)


@main.command()
@NAME_OR_NONE
@MODULES
@guarded
def standby(name: str | None, modules: tuple[str, ...]) -> None:
    """Wait with Spark running; take the stream over when its driver is gone, unless it was stopped."""
    pipeline = chosen(modules, name)
    _prepare()
    from rs_assets.cli.run.console import stand_by

    stand_by(pipeline)


def _prepare(java_options: str = "", *, unless: Callable[[], bool] = bool) -> None:
    """Start Spark in the background during the next imports, which take as long, if it will be needed."""
    from rs_assets.spark.driver import SparkDriver
    from rs_assets.spark.settings import SparkSettings

    driver = SparkDriver.shared(SparkSettings(java_options=java_options))
    if not unless():
        driver.prepare()


def _java_of_run(pipeline: Pipeline, request: Mapping[str, Any]) -> str:
    """The options of Java for a run to the end of the present input."""
    from rs_assets.runtime.job.small import seems_small
    from rs_assets.spark.settings import BRIEF_JAVA, small_java

    anew = bool(request["new_generation"] or request["reset_steps"])
    return small_java(os.environ) if seems_small(pipeline.topology, Home.default(), anew=anew) else BRIEF_JAVA


def _seems_unchanged(pipeline: Pipeline, request: Mapping[str, Any]) -> bool:
    """Whether the run will probably find nothing new; Spark starts later if it does find something."""
    from rs_assets.checkpoint import manifest as manifests

    topology = pipeline.topology
    if not manifests.exists(Home.default().job(topology.namespace, topology.job)):
        return False
    from rs_assets.runtime.job.unchanged import seems_unchanged
    from rs_assets.runtime.options import RunOptions

    finish = request["finish"] or None
    return seems_unchanged(topology, RunOptions(**{k: v for k, v in request.items() if k != "finish"}), finish=finish)


@main.command()
@NAME_OR_NONE
@MODULES
@AS_JSON
@guarded
def status(name: str | None, modules: tuple[str, ...], as_json: bool) -> None:
    """Show the state of each pipeline, deployed ones too: generation, last batch, watermark, running process."""
    from rs_assets.cli.run.status import show_status

    show_status([chosen(modules, name)] if name else known(modules), as_json=as_json)


@main.command()
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65_535), help="The port on 127.0.0.1.")
@MODULES
@guarded
def ui(modules: tuple[str, ...], port: int) -> None:
    """Open Dagster with the pipelines' assets, jobs, sensors and schedules."""
    from rs_assets.dagster.instance import ensure_home

    check_extra("ui", "the web page of Dagster")
    ensure_home()
    targets, alone = _targets(modules)
    click.echo(f"Dagster opens on http://127.0.0.1:{port}  (terminate running streams before you stop it)")
    # Dagster's daemon would log several times a minute that each sensor had nothing to do.
    quiet = ["--log-level", "warning"]
    command = [sys.executable, "-m", "dagster", "dev", *targets, "-h", "127.0.0.1", "-p", str(port), *quiet]
    here = {"PYTHONWARNINGS": "ignore", "RS_DAGSTER_URL": f"http://127.0.0.1:{port}"}
    only = {"RS_MODULES": " ".join(alone)} if alone else {}
    _become(command, {**os.environ, **here, **only})


def _become(command: list[str], environment: Mapping[str, str]) -> None:
    """Continue as `command`: signals to this process then end it, also if a shell started it in the background."""
    sys.stdout.flush()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.execve(command[0], command, environment)  # noqa: S606  a command of ours


def _targets(modules: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """What Dagster is to load, and the modules with pipelines only, which `rs_assets.definitions` loads."""
    workspace = project_folder() / "workspace.yaml"
    if not modules and workspace.exists():
        return ["-w", str(workspace)], []
    own, alone = split_modules(modules)
    ours = ["rs_assets.definitions"] if alone or not own else []
    return [part for module in (*own, *ours) for part in ("-m", module)], alone


if __name__ == "__main__":
    main()
