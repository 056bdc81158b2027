"""`rs-assets sql`: a file of streaming SQL, explained or run; without a file, an interactive session."""

from __future__ import annotations

from typing import Literal

import click

from rs_assets.cli.base import AS_JSON, fields_of, guarded


@click.command()
@click.argument("file", type=click.Path(), required=False)
@click.option("--explain", is_flag=True, help="Show the steps of the file without running it.")
@click.option("--namespace", default="sql", show_default=True, help="The pipeline's namespace.")
@click.option("--job", help="The pipeline's job (default: the name of the file).")
@click.option("--set", "variables", multiple=True, metavar="NAME=VALUE", help="A value for ${NAME} in the file.")
@click.option(
    "--dialect",
    type=click.Choice(["flink", "spark"]),
    default="flink",
    show_default=True,
    help="The dialect of the statements.",
)
@click.option("--finish", is_flag=True, help="Fire all open windows: the input is at its end.")
@AS_JSON
@guarded
def sql(
    file: str | None,
    namespace: str,
    job: str | None,
    variables: tuple[str, ...],
    dialect: Literal["flink", "spark"],
    *,
    explain: bool,
    finish: bool,
    as_json: bool,
) -> None:
    """Process all input there is as FILE says, and show the results; without FILE, ask for statements."""
    from pathlib import Path

    from rs_assets.cli.run.console import run_and_show
    from rs_assets.dagster.runs.launch import LaunchRequest
    from rs_assets.sql.plan.build import pipeline_from_sql

    values = fields_of("--set", variables, example="day=2026-01-05")
    request = LaunchRequest(finish=finish)
    if file is None:
        from rs_assets.cli.sql.shell import interactive
        from rs_assets.sql.plan.session import Session

        if explain or job is not None:
            raise click.UsageError("--explain and --job need a FILE")
        interactive(
            Session(namespace, values, dialect),
            lambda pipeline: run_and_show(pipeline, request, plain=True, as_json=as_json),
        )
        return
    pipeline = pipeline_from_sql(Path(file), namespace=namespace, job=job, variables=values, dialect=dialect)
    if explain:
        click.echo(pipeline.describe())
        return
    run_and_show(pipeline, request, plain=True, as_json=as_json)
