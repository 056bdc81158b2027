"""`rs-assets sql`: a file of streaming SQL, explained or run."""

from __future__ import annotations

import click

from rs_assets.cli.base import AS_JSON, guarded


@click.command()
@click.argument("file", type=click.Path())
@click.option("--explain", is_flag=True, help="Show the steps that the file becomes, and run nothing.")
@click.option("--namespace", default="sql", show_default=True, help="The pipeline's namespace.")
@click.option("--job", help="The pipeline's job (default: the name of the file).")
@click.option("--set", "variables", multiple=True, metavar="NAME=VALUE", help="A value for ${NAME} in the file.")
@click.option("--finish", is_flag=True, help="Fire all open windows: the input is at its end.")
@AS_JSON
@guarded
def sql(
    file: str,
    namespace: str,
    job: str | None,
    variables: tuple[str, ...],
    *,
    explain: bool,
    finish: bool,
    as_json: bool,
) -> None:
    """Process all input there is as FILE says, and show what came out."""
    from pathlib import Path

    from rs_assets.pipeline.language.sql.build import pipeline_from_sql

    values = dict(each.partition("=")[::2] for each in variables)
    pipeline = pipeline_from_sql(Path(file), namespace=namespace, job=job, variables=values)
    if explain:
        click.echo(pipeline.describe())
        return
    from rs_assets.cli.console import run_and_show
    from rs_assets.orchestration.launch import Wish

    run_and_show(pipeline, Wish(finish=finish), plain=True, as_json=as_json)
