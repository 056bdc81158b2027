"""The commands `stores`, `query` and `serve`: rows of stores on a terminal, for programs, and by HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rs_assets.cli.base import AS_JSON, MODULES, NAME, NAME_OR_NONE, SECONDS, chosen, fields_of, guarded
from rs_assets.common.home import Home
from rs_assets.common.plural import count_of
from rs_assets.connectors.store.nodes import stores_of
from rs_assets.errors import ConfigurationError

if TYPE_CHECKING:
    from rs_assets.connectors.store.reader import Store
    from rs_assets.stream.pipeline import Pipeline

# What questions without a direction are for.
WHAT = {"prefix": "the rows of some keys", "windows": "windows"}


@click.command()
@NAME_OR_NONE
@MODULES
@AS_JSON
@guarded
def stores(name: str | None, modules: tuple[str, ...], as_json: bool) -> None:
    """Show the stores of a pipeline: keys, rows, size, last batch and its age."""
    from rs_assets.cli.rows.query_server import facts

    found = [facts(store) for store in _stores(chosen(modules, name)).values()]
    if as_json:
        click.echo(json.dumps(found))
        return
    for each in found:
        if each["batch"] is None:
            click.echo(f"{each['store']}  no batch yet")
            continue
        keys = ", ".join(f"{key} {kind}" for key, kind in each["keys"].items())
        age = f"{each['age_ms'] / 1000:.1f} s ago"
        click.echo(
            f"{each['store']}  by {keys}  {count_of(each['rows'], 'row')}  {each['bytes']:,} bytes"
            f"  batch {each['batch']}, {age}"
        )


@click.command()
@NAME
@click.argument("store")
@click.option(
    "--key", "keys", multiple=True, help="FIELD=VALUE of the key; all of them give one row, the first a range."
)
@click.option("--from", "begin", help="The first key, or time of windows; \\N is null.")
@click.option("--to", "end", help="The last key, or time of windows; inclusive.")
@click.option("--begins", help="The text with which the next key begins.")
@click.option("--windows", is_flag=True, help="The windows of the key, by --from and --to.")
@click.option("--reverse", is_flag=True, help="The greatest key first.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="How many rows at most.")
@click.option("--at-least", type=click.IntRange(min=0), help="Wait until the store has this batch.")
@click.option("--timeout", default=5.0, show_default=True, type=SECONDS, help="How long to wait, in seconds.")
@MODULES
@AS_JSON
@guarded
def query(
    name: str,
    store: str,
    keys: tuple[str, ...],
    begin: str | None,
    end: str | None,
    begins: str | None,
    *,
    windows: bool,
    reverse: bool,
    limit: int,
    at_least: int | None,
    timeout: float,
    modules: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show rows of a store: of one key, of the first keys, of a range, of windows, or all."""
    from rs_assets.cli.rows.query_server import body_of
    from rs_assets.connectors.store.question import Question

    opened = chosen(modules, name).query(store)
    named = fields_of("--key", keys, example="user=17")
    what = "windows" if windows else _kind(named, begin, end, begins, reverse=reverse)
    _check(what, begin, begins, reverse=reverse)
    asked = Question(
        what=what,
        keys=named,
        begin=begins if begins is not None else begin,
        end=end,
        reverse=reverse,
        limit=limit,
        at_least=at_least,
        timeout=timeout,
    )
    answer = asked.answer(opened)
    body = body_of(answer)
    if as_json:
        click.echo(json.dumps(body))
        return
    for row in body["rows"]:
        click.echo(json.dumps(row, ensure_ascii=False))
    more = ", and more" if answer.more else ""
    age = f"{answer.age.total_seconds():.1f} s ago"
    click.echo(f"{count_of(len(answer.rows), 'row')}{more}; batch {answer.batch}, {age}", err=True)


@click.command()
@NAME_OR_NONE
@click.option(
    "--port",
    default=8750,
    show_default=True,
    type=click.IntRange(0, 65_535),
    help="The port on 127.0.0.1; 0 takes a free one.",
)
@click.option(
    "--token-file", type=click.Path(dir_okay=False, path_type=Path), help="Default: stores/token in the home."
)
@MODULES
@guarded
def serve(name: str | None, port: int, token_file: Path | None, modules: tuple[str, ...]) -> None:
    """Answer queries of a pipeline's stores by HTTP, on loopback, until Ctrl-C; the pipeline may run elsewhere."""
    from rs_assets.cli.rows.query_server import server_of, token_of

    opened = _stores(chosen(modules, name))
    path = token_file or Home.default().root / "stores" / "token"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        token = token_of(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"the file of the token cannot be used: {error}", remedy="name another one: --token-file FILE"
        ) from error
    try:
        server = server_of(opened, token, port=port)
    except OSError as error:
        raise ConfigurationError(f"the port {port} cannot be used: {error.strerror}", remedy="--port 0") from error
    click.echo(f"http://127.0.0.1:{server.server_address[1]}/v1/stores  (token in {path})")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        click.echo("stopped")
    finally:
        server.server_close()


def _stores(pipeline: Pipeline) -> dict[str, Store]:
    """The stores of a pipeline by name; ConfigurationError if it has none."""
    names = stores_of(pipeline.topology.sinks)
    if not names:
        raise ConfigurationError(f"{pipeline.name} serves no store", remedy="hold rows in one: .serve('totals')")
    return {name: pipeline.query(name) for name in names}


def _kind(keys: dict[str, str], begin: str | None, end: str | None, begins: str | None, *, reverse: bool) -> str:
    if begin is not None or end is not None:
        return "range"
    # All rows are a range without ends, which has a direction.
    return "prefix" if keys or begins is not None else "range" if reverse else "all"


def _check(what: str, begin: str | None, begins: str | None, *, reverse: bool) -> None:
    """ConfigurationError for an option that the question would not regard."""
    if begins is not None and what != "prefix":
        other = "--windows" if what == "windows" else "--from" if begin is not None else "--to"
        raise ConfigurationError(f"--begins is not asked with {other}", remedy=f"leave {other} out, or --begins")
    if reverse and what != "range":
        raise ConfigurationError(f"--reverse is of a range, and this is a question for {WHAT[what]}",
                                 remedy="leave --reverse out, or ask with --from and --to")  # fmt: skip
