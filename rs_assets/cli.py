"""The command line `rs-assets`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resources.errors import ConfigurationError, RsError
from rs_assets.discovery import find_pipelines, pick

if TYPE_CHECKING:
    from pipelines.stream.pipeline import Pipeline

# A run that was refused or failed; 2 is click's own for wrong usage.
FAILED = 1


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Show our own errors as text, not as a trace, and end with a code that says so."""

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except RsError as error:
            if kwargs.get("as_json"):
                click.echo(json.dumps({"error": type(error).__name__, "what": error.what, "remedy": error.remedy}))
            else:
                click.secho(f"{type(error).__name__}: ", fg="red", bold=True, nl=False, err=True)
                click.echo(str(error), err=True)
            sys.exit(FAILED)

    return guarded


MODULES = click.option(
    "-m", "--module", "modules", multiple=True, help="A module with pipelines (default: pyproject.toml)."
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rs-assets")
def main() -> None:
    """Stream pipelines as Dagster assets, on Spark."""


@main.command("list")
@MODULES
@AS_JSON
@_guarded
def list_pipelines(modules: tuple[str, ...], as_json: bool) -> None:
    """List the pipelines there are."""
    rows = [
        {
            "pipeline": p.name,
            "sources": [s.name for s in p.topology.sources],
            "stateful": [n.name for n in p.topology if n.stateful],
            "sinks": [s.name for s in p.topology.sinks],
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
@click.argument("name")
@click.option("--mermaid", is_flag=True, help="As a Mermaid graph.")
@MODULES
@_guarded
def describe(name: str, modules: tuple[str, ...], mermaid: bool) -> None:
    """Show the steps of a pipeline."""
    click.echo(pick(find_pipelines(modules), name).describe(mermaid=mermaid))


@main.command()
@click.argument("name")
@click.option("--finish", is_flag=True, help="Fire all open windows: the input is at its end.")
@click.option("--new-generation", is_flag=True, help="Begin a fresh checkpoint and read the input again.")
@click.option("--plain", is_flag=True, help="Without Dagster: no run is recorded.")
@MODULES
@AS_JSON
@_guarded
def run(name: str, modules: tuple[str, ...], *, finish: bool, new_generation: bool, plain: bool, as_json: bool) -> None:
    """Process all input there is, through Dagster, and show what came out."""
    from rs_assets.console import run_and_show

    run_and_show(_chosen(modules, name), finish=finish, new_generation=new_generation, plain=plain, as_json=as_json)


@main.command()
@click.argument("name")
@MODULES
@_guarded
def start(name: str, modules: tuple[str, ...]) -> None:
    """Process input as it comes, through Dagster, until Ctrl-C, which drains and stops."""
    from rs_assets.console import start_and_watch

    start_and_watch(_chosen(modules, name))


@main.command()
@click.argument("name", required=False)
@MODULES
@AS_JSON
@_guarded
def status(name: str | None, modules: tuple[str, ...], as_json: bool) -> None:
    """Show where each pipeline stands: generation, last batch, watermark, who runs it."""
    from rs_assets.status import show_status

    found = find_pipelines(modules)
    show_status([pick(found, name)] if name else list(found), as_json=as_json)


@main.command()
@click.option("--port", default=3000, show_default=True, help="The port on 127.0.0.1.")
@MODULES
@_guarded
def ui(modules: tuple[str, ...], port: int) -> None:
    """Open Dagster with the pipelines' assets, jobs, sensors and schedules."""
    from rs_assets.instance import ensure_home

    ensure_home()
    target = ["-w", "workspace.yaml"] if Path("workspace.yaml").exists() and not modules else _module_targets(modules)
    click.echo(f"Dagster opens on http://127.0.0.1:{port}  (terminate running streams before you stop it)")
    command = [sys.executable, "-m", "dagster", "dev", *target, "-h", "127.0.0.1", "-p", str(port)]
    sys.exit(subprocess.call(command, env={**os.environ, "PYTHONWARNINGS": "ignore"}))


def _module_targets(modules: tuple[str, ...]) -> list[str]:
    if modules:
        return [part for module in modules for part in ("-m", module)]
    return ["-m", "rs_assets.definitions"]


def _chosen(modules: tuple[str, ...], name: str) -> Pipeline:
    if not name.strip():
        raise ConfigurationError("a pipeline has a name")
    return pick(find_pipelines(modules), name)


if __name__ == "__main__":
    main()
