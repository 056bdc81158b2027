"""What all commands share: options, errors as text, the choice of a pipeline."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from rs_assets.engine.home import Home
from rs_assets.errors import ConfigurationError, RsError
from rs_assets.orchestration.discovery import find_pipelines, pick

if TYPE_CHECKING:
    from rs_assets.pipeline.stream.pipeline import Pipeline

# A run that was refused or failed; 2 is click's own for wrong usage.
FAILED = 1


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
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


def chosen(modules: tuple[str, ...], name: str) -> Pipeline:
    """The pipeline called `name`, of the project's code or, where no modules are named, deployed."""
    if not name.strip():
        raise ConfigurationError("a pipeline has a name")
    from rs_assets.orchestration.deployed.shown import shown_pipelines

    found = find_pipelines(modules)
    taken = {pipeline.topology.label for pipeline in found}
    deployed = () if modules else shown_pipelines(Home.default(), taken)
    return pick((*found, *(pipeline for _, pipeline in deployed)), name)
