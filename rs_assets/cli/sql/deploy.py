"""`rs-assets deploy` and `rs-assets deployments`: versions of streaming SQL for the sensor of Dagster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rs_assets.cli.base import AS_JSON, fields_of, guarded
from rs_assets.cli.output import show
from rs_assets.errors import ConfigurationError

if TYPE_CHECKING:
    from rs_assets.deploy.deployments import Deployments
    from rs_assets.deploy.history import Event, Standing

NEXT = (
    "the sensor rs_deployments of Dagster executes it (rs-assets ui), if its definitions have deployed_definitions();"
    " see: rs-assets deployments"
)


@click.command()
@click.argument("what", metavar="FILE|NAME")
@click.option("--name", help="The pipeline of FILE, namespace.job (default: sql.<the file's name>).")
@click.option("--set", "variables", multiple=True, metavar="NAME=VALUE", help="A value for ${NAME} in the file.")
@click.option("--reset", multiple=True, metavar="STEP", help="Forget the state of this step; '*': of all of them.")
@click.option("--rollback", type=int, metavar="VERSION", help="Run the statements of this version of NAME again.")
@click.option("--start", "state", flag_value="start", help="Run the newest statements of NAME.")
@click.option("--stop", "state", flag_value="stop", help="Drain and stop NAME.")
@click.option("--drop", "state", flag_value="drop", help="Stop NAME and remove its assets; tables and state stay.")
@click.option("--note", default="", help="What it is for.")
@AS_JSON
@guarded
def deploy(
    what: str,
    name: str | None,
    variables: tuple[str, ...],
    reset: tuple[str, ...],
    *,
    rollback: int | None,
    state: str | None,
    note: str,
    as_json: bool,
) -> None:
    """Have Dagster run the streaming SQL of FILE, or start, stop, drop or roll back the deployed pipeline NAME."""
    from rs_assets.deploy.deployments import Deployments

    deployed = Deployments()
    if rollback is not None and state is not None:
        raise ConfigurationError(f"--rollback and --{state} exclude each other", remedy="give one of them")
    again = "--rollback" if rollback is not None else f"--{state}" if state is not None else None
    if again is not None:
        # The statements and their values are those of the version; only a rollback forgets state.
        _refuse_beside(again, name=name, set=variables, reset=reset if rollback is None else ())
    if rollback is not None:
        pipeline, version = what, deployed.rollback(what, to=rollback, reset=reset, note=note)
    elif state is not None:
        pipeline, version = what, getattr(deployed, state)(what, note=note)
    else:
        pipeline, version = _deployed(deployed, Path(what), name, variables, reset=reset, note=note)
    if as_json:
        click.echo(json.dumps({"pipeline": pipeline, "version": version}))
        return
    click.echo(f"{pipeline}: version {version}; {NEXT}")


def _refuse_beside(option: str, **others: object) -> None:
    """ConfigurationError for an option that `option` would not regard."""
    other = next((name for name, value in others.items() if value), None)
    if other is not None:
        raise ConfigurationError(
            f"--{other} does not go with {option}", remedy=f"leave --{other} out, or deploy a FILE"
        )


def _deployed(
    deployed: Deployments, file: Path, name: str | None, variables: tuple[str, ...], **how: Any
) -> tuple[str, int]:
    """The pipeline and the version that a file was deployed as."""
    from rs_assets.sql.plan.planner import step_name

    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the file {file} cannot be read: {error}", remedy="name a file of SQL") from error
    pipeline = name or f"sql.{step_name(file.stem)}"
    values = fields_of("--set", variables, example="day=2026-01-05")
    return pipeline, deployed.deploy(pipeline, text, variables=values, **how)


@click.command()
@click.argument("name", required=False)
@click.option("--text", type=int, metavar="VERSION", help="Show the statements of this version of NAME.")
@AS_JSON
@guarded
def deployments(name: str | None, *, text: int | None, as_json: bool) -> None:
    """Show the state of the deployed pipelines, or all versions of NAME with their results."""
    from rs_assets.deploy.deployments import Deployments

    deployed = Deployments()
    if text is not None and name is None:
        remedy = f"rs-assets deployments NAME --text {text}"
        raise ConfigurationError("--text needs the name of a pipeline", remedy=remedy)
    if name is None:
        rows, empty = [_standing(*each) for each in deployed.standings().items()], "nothing is deployed"
    else:
        rows, empty = _versions(deployed, name), f"no version of {name} is deployed"
    if text is not None:
        found = next((v for v in deployed.versions(name or "") if v.version == text), None)
        if found is None:
            raise ConfigurationError(f"there is no version {text} of {name}", remedy="see: rs-assets deployments NAME")
        click.echo(found.text)
    elif as_json:
        click.echo(json.dumps(rows, default=str))
    else:
        show(rows, tuple(rows[0]) if rows else (), empty=empty)


def _standing(name: str, state: Standing) -> dict[str, Any]:
    return {
        "pipeline": name,
        "wished": state.desired.version,
        "state": state.desired.state,
        "good": state.good.version if state.good is not None else None,
        "last": state.last.event if state.last is not None else "new",
        "told": state.last.summary if state.last is not None else "",
    }


def _versions(deployed: Deployments, name: str) -> list[dict[str, Any]]:
    versions = deployed.versions(name)
    known = {version.version: version for version in versions}
    last: dict[int, Event] = {
        event.version: event for event in deployed.events(name) if event.is_of(known.get(event.version))
    }
    return [
        {
            "version": version.version,
            "state": version.state,
            "author": version.author,
            "at": f"{version.at:%Y-%m-%d %H:%M:%S}" if version.at is not None else "",
            "note": version.note,
            "last": last[version.version].event if version.version in last else "new",
            "told": last[version.version].summary if version.version in last else version.fault,
        }
        for version in versions
    ]
