"""Common parts of the commands: options, errors as text, the choice of a pipeline."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from rs_assets.common.home import Home
from rs_assets.dagster.discovery import find_pipelines, pick, pipelines_of_code
from rs_assets.errors import ConfigurationError, RsError

if TYPE_CHECKING:
    from rs_assets.stream.pipeline import Pipeline

# The exit code of a refused or failed run; click uses 2 for wrong usage.
FAILED = 1


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Show our own errors as text instead of a trace, and exit with a code that says so."""

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


def _names(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Names of pipelines for completion with the Tab key; none if the project does not load."""
    try:
        found = find_pipelines(context.params.get("modules") or ())
    except RsError:
        return []
    return [pipeline.topology.job for pipeline in found if pipeline.topology.job.startswith(begun)]


NAME = click.argument("name", shell_complete=_names)
NAME_OR_NONE = click.argument("name", required=False, shell_complete=_names)


class Seconds(click.FloatRange):
    """A number of seconds from 0 to ten years; NaN, which is in no range, is refused, too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, as a float."""
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return found


SECONDS = Seconds(min=0, max=10 * 366 * 86_400)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def chosen(modules: tuple[str, ...], name: str | None) -> Pipeline:
    """The pipeline called `name`, in the project's code or, if no modules are given, deployed.

    Without a name it is the only one of the code; ConfigurationError names them if there are several.
    """
    if name is None:
        return _only(find_pipelines(modules))
    if not name.strip():
        raise ConfigurationError("the name of a pipeline must not be empty")
    return pick(known(modules), name)


def known(modules: tuple[str, ...]) -> tuple[Pipeline, ...]:
    """The pipelines of the project's code and, if no modules are given, the deployed ones."""
    from rs_assets.dagster.deployed.visible import visible_pipelines

    home = Home.default()
    found = pipelines_of_code(modules, home)
    taken = {pipeline.topology.label for pipeline in found}
    deployed = () if modules else visible_pipelines(home, taken)
    return (*found, *(pipeline for _, pipeline in deployed))


def _only(found: Sequence[Pipeline]) -> Pipeline:
    if not found:
        raise ConfigurationError(
            "no module has a pipeline at its top level",
            remedy="name a module that has one: -m package.module, or in pyproject.toml [tool.rs_assets] pipelines",
        )
    if len(found) > 1:
        raise ConfigurationError(
            f"a name is needed: there are {len(found)} pipelines",
            remedy=f"name one of: {', '.join(pipeline.name for pipeline in found)}",
        )
    return found[0]


def fields_of(option: str, texts: Sequence[str], *, example: str) -> dict[str, str]:
    """The values of an option that is given as FIELD=VALUE, by field; ConfigurationError for one without a sign.

    The same for a field that is named twice.

    >>> fields_of("--key", ["page=/a=b"], example="page=/index")
    {'page': '/a=b'}
    """
    wrong = next((text for text in texts if "=" not in text), None)
    if wrong is not None:
        raise ConfigurationError(f"{option} must be FIELD=VALUE, not {wrong!r}", remedy=f"write {option} {example}")
    pairs = [text.split("=", 1) for text in texts]
    twice = next((name for name, count in Counter(name for name, _ in pairs).items() if count > 1), None)
    if twice is not None:
        raise ConfigurationError(f"{option} names {twice!r} more than once", remedy=f"once each: {option} {example}")
    return dict(pairs)
