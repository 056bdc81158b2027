"""The commands `partitions`, `backfill`, `try`, `promote`, `prove` and `audit`: recorded batches read again."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from rs_assets.cli.base import AS_JSON, FAILED, MODULES, NAME_OR_NONE, chosen, guarded
from rs_assets.common.plural import count_of
from rs_assets.common.priority import MOST, give_way

if TYPE_CHECKING:
    from rs_assets.runtime.recorded.partitions import Partition

JUDGES = ("all", "as_then", "as_now")
GIVES_WAY = click.option(
    "--nice",
    type=click.IntRange(0, MOST),
    help=f"How far a stream on this machine goes first on a busy processor: 0 to {MOST} (default: RS_NICE, else 10).",
)
SHOWN = ("partition", "state", "rows", "late", "files", "MB")


@click.command()
@NAME_OR_NONE
@click.option("--sink", help="The output, if several have partitions.")
@click.option("--last", default=24, show_default=True, type=click.IntRange(min=1), help="The newest, at most so many.")
@MODULES
@AS_JSON
@guarded
def partitions(name: str | None, sink: str | None, last: int, modules: tuple[str, ...], *, as_json: bool) -> None:
    """Show the partitions by event time of an output: closed or open, with their rows."""
    from rs_assets.cli.output import show
    from rs_assets.operators.window.event_time import watermark_in_words

    found = chosen(modules, name).partitions(sink=sink)
    newest = found.partitions[-last:]
    if as_json:
        listed = {"sink": found.sink, "version": found.version, "reached": found.reached}
        rows = [each.as_dict() for each in newest]
        click.echo(json.dumps({**listed, "without_time": found.without_time, "partitions": rows}, default=str))
        return
    show([_row(each) for each in newest], SHOWN, empty=f"{found.sink}: no partitions yet")
    if found.reached is not None:
        click.echo(f"closed up to the event time {watermark_in_words(found.reached)}")
    if found.without_time:
        click.echo(f"rows without a time, which are in no partition: {found.without_time:,}")


def _row(partition: Partition) -> dict[str, str]:
    return {
        "partition": partition.key,
        "state": "closed" if partition.closed else "open",
        "rows": f"{partition.rows:,}",
        "late": f"{partition.late:,}" if partition.late else "",
        "files": f"{partition.files:,}",
        "MB": f"{partition.bytes / 1e6:,.1f}",
    }


@click.command()
@NAME_OR_NONE
@click.option("--partition", "first", required=True, metavar="KEY", help="The partition, as `partitions` shows it.")
@click.option("--to", metavar="KEY", help="The last one: all between them are computed again.")
@click.option("--sink", help="The output, if several have partitions.")
@click.option(
    "--judge", default="all", show_default=True, type=click.Choice(JUDGES), help="Which late records are taken."
)
@click.option("--plan", is_flag=True, help="Only say what would be read again.")
@click.option("--code", metavar="DIGEST", help="Refuse other code than this, which `try` has shown.")
@GIVES_WAY
@MODULES
@AS_JSON
@guarded
def backfill(
    name: str | None, modules: tuple[str, ...], *, first: str, nice: int | None, as_json: bool, **chosen_by: Any
) -> None:
    """Compute closed partitions again from the recorded input, and replace their rows; the stream may run."""
    give_way(nice)
    done = chosen(modules, name).backfill(first, **chosen_by)
    if as_json:
        click.echo(json.dumps([each.as_dict() for each in done]))
        return
    for each in done:
        click.echo(str(each))


@click.command()
@NAME_OR_NONE
@click.option("--partition", metavar="KEY", help="The partition; default: those that are not proved.")
@click.option("--to", metavar="KEY", help="The last one.")
@click.option("--sink", help="The output, if several have partitions.")
@click.option(
    "--last",
    "newest",
    default=24,
    show_default=True,
    type=click.IntRange(min=1),
    help="Without a name, so many.",
)
@GIVES_WAY
@MODULES
@AS_JSON
@guarded
def prove(name: str | None, modules: tuple[str, ...], *, nice: int | None, as_json: bool, **chosen_by: Any) -> None:
    """Compare closed partitions with what the recorded input gives, and note the result in the ledger."""
    give_way(nice)
    done = chosen(modules, name).prove(**chosen_by)
    if as_json:
        click.echo(json.dumps([each.as_dict() for each in done]))
    for each in () if as_json else done:
        click.echo(str(each))
    if not done and not as_json:
        click.echo("all closed partitions are proved")
    if not all(each.holds for each in done):
        sys.exit(FAILED)


@click.command()
@NAME_OR_NONE
@MODULES
@guarded
def audit(name: str | None, modules: tuple[str, ...]) -> None:
    """Check the ledger of proofs: whether an entry was changed or removed since it was written."""
    from rs_assets.catalog.ledger import Ledger
    from rs_assets.common.home import Home

    ledger = Ledger(Home.default().catalog, chosen(modules, name).name)
    broken, everything = ledger.first_break(), ledger.entries()
    entries = [entry for entry in everything if entry["kind"] is None]
    unequal = [entry["partition"] for entry in entries if not entry["equal"]]
    click.echo(
        broken or f"{count_of(len(entries), 'proof')}, none changed since; unequal: {', '.join(unequal) or 'none'}"
    )
    lost = [entry["partition"] for entry in entries if entry["accounted"] is False]
    if lost and not broken:
        click.echo(f"records that are not accounted for, or were counted otherwise by the stream: {', '.join(lost)}")
    forgets = [entry for entry in everything if entry["kind"] is not None]
    if forgets and not broken:
        times, last = count_of(len(forgets), "time"), forgets[-1]["proved_at"]
        click.echo(f"keys were forgotten {times}, last on {last:%Y-%m-%d %H:%M:%S}")
    if broken:
        sys.exit(FAILED)


@click.command("try")
@NAME_OR_NONE
@click.option("--partition", metavar="KEY", help="The partition; default: the newest closed ones.")
@click.option("--to", metavar="KEY", help="The last one.")
@click.option("--sink", help="The table, if there are several.")
@click.option(
    "--last", "newest", default=24, show_default=True, type=click.IntRange(min=1), help="Without a name, so many."
)
@click.option("--keys", default="", metavar="FIELDS", help="Fields that identify a row, with commas between them.")
@click.option("--into", type=click.Path(), help="A new folder, for a Delta table with each row that differs.")
@click.option(
    "--savepoint", "savepoint_id", metavar="ID", help="Go on from its state, and compare rows since then; or: newest."
)
@click.option("--expect-equal", is_flag=True, help="Exit with 1 if there is a difference.")
@GIVES_WAY
@MODULES
@AS_JSON
@guarded
def try_code(
    name: str | None,
    modules: tuple[str, ...],
    *,
    keys: str,
    expect_equal: bool,
    nice: int | None,
    as_json: bool,
    **chosen_by: Any,
) -> None:
    """Compare the current code with the rows that a former version has written; nothing is changed."""
    give_way(nice)
    fields = tuple(key.strip() for key in keys.split(",") if key.strip())
    found = chosen(modules, name).compare(keys=fields, **chosen_by)
    click.echo(json.dumps({**found.as_dict(), "empty": found.empty}) if as_json else str(found))
    if expect_equal and not found.empty:
        sys.exit(FAILED)


@click.command()
@NAME_OR_NONE
@click.option("--code", required=True, metavar="DIGEST", help="The code that was tried, which `try` has shown.")
@click.option("--rewrite-from", metavar="KEY", help="Also replace the rows of closed partitions from this one on.")
@click.option("--sink", help="The output, if several have partitions.")
@click.option(
    "--judge", default="as_now", show_default=True, type=click.Choice(JUDGES), help="Which late records are taken."
)
@click.option("--keep-state", is_flag=True, help="Use state that another version of the pipeline wrote, as it is.")
@click.option("--reset-step", "reset_steps", multiple=True, help="Forget the state of this step only.")
@click.option("--new-generation", is_flag=True, help="Begin a fresh checkpoint and read the input again.")
@click.option("--plan", is_flag=True, help="Only say what would be done.")
@MODULES
@AS_JSON
@guarded
def promote(
    name: str | None,
    modules: tuple[str, ...],
    *,
    keep_state: bool,
    reset_steps: tuple[str, ...],
    new_generation: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Let the current code, which was tried, compute all batches from now on; a run is asked to stop."""
    from rs_assets.runtime.options import RunOptions

    options = RunOptions(keep_state=keep_state, reset_steps=reset_steps, new_generation=new_generation)
    done = chosen(modules, name).promote(options=options, **asked)
    click.echo(json.dumps(done.as_dict()) if as_json else str(done))
