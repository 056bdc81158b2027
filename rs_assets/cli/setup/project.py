"""Commands for the first hours: a new project, the needs of this machine, set-up, and a check of the pipelines."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rs_assets.cli.base import AS_JSON, FAILED, MODULES, NAME_OR_NONE, chosen, guarded
from rs_assets.common.plural import count_of
from rs_assets.dagster.discovery import find_pipelines
from rs_assets.errors import RsError

if TYPE_CHECKING:
    from rs_assets.stream.pipeline import Pipeline


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@guarded
def init(folder: Path) -> None:
    """Write a new project that works at once: a pipeline over a sample file, definitions, a test."""
    from rs_assets.cli.setup.init import write_project

    files = write_project(folder)
    click.echo(f"wrote {count_of(len(files), 'file')} into {folder}: {', '.join(files)}")
    click.echo(f"\nnext:\n  cd {shlex.quote(str(folder))}\n  rs-assets setup\n  rs-assets run\n  rs-assets ui")


@click.command()
@AS_JSON
@guarded
def doctor(as_json: bool) -> None:
    """Show what this machine and this project need, what is missing, and the command that installs it.

    The exit code is 1 if something is missing.
    """
    from rs_assets.cli.setup.doctor import findings

    found = list(findings())
    if as_json:
        click.echo(json.dumps([{**asdict(each), "good": each.good} for each in found]))
    else:
        for each in found:
            mark = click.style("ok", fg="green") if each.good else click.style("no", fg="red", bold=True)
            click.echo(f"{mark}  {each.what:<13} {each.found}")
            if not each.good:
                click.echo(f"    remedy: {each.remedy}")
    sys.exit(0 if all(each.good for each in found) else FAILED)


@click.command()
@click.option("--s3", is_flag=True, help="Also get the jars with which Spark reads from S3 (12 MB)")
@guarded
def setup(s3: bool) -> None:
    """Get what pip cannot install: a Java, the jars of Delta, Kafka and the processors, an archive of classes."""
    from rs_assets.cli.setup.rehearsal import archive_classes
    from rs_assets.spark.jars import SPARK
    from rs_assets.spark.java import java_home
    from rs_assets.spark.object_store import S3
    from rs_assets.spark.processor.library import library

    click.echo(f"Java: {java_home()}")
    click.echo(f"jars: fetching what is missing of {len(SPARK.jars)} (22 MB) ...")
    fetched = SPARK.fetch()
    click.echo(f"jars: {len(fetched)} fetched now, all of them in {SPARK.folder()}")
    if s3:
        click.echo(f"jars for S3: {len(S3.fetch())} fetched now, all of them in {S3.folder()}")
    click.echo(f"processors: {library().name}")
    click.echo("classes: running a small pipeline, so that later starts find its classes ready (a minute, 205 MB) ...")
    click.echo(f"classes: {archive_classes()}")


@click.command()
@NAME_OR_NONE
@MODULES
@AS_JSON
@guarded
def check(name: str | None, modules: tuple[str, ...], as_json: bool) -> None:
    """Let Spark analyse every step of the pipelines, without reading anything; exit code 1 if one is refused."""
    results = [_checked(each) for each in ([chosen(modules, name)] if name else find_pipelines(modules))]
    if as_json:
        click.echo(json.dumps(results))
    for result in () if as_json else results:
        mark = click.style("ok", fg="green") if result["good"] else click.style("no", fg="red", bold=True)
        click.echo(f"{mark}  {result['pipeline']}  {result['told']}")
    sys.exit(0 if all(result["good"] for result in results) else FAILED)


def _checked(pipeline: Pipeline) -> dict[str, Any]:
    try:
        fields = pipeline.check()
    except RsError as error:
        return {"pipeline": pipeline.name, "good": False, "told": str(error), "fields": {}}
    return {"pipeline": pipeline.name, "good": True, "told": count_of(len(fields), "step"), "fields": dict(fields)}
