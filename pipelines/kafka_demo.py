"""`make kafka-demo`: a broker, a shop's orders and payments, and the example order_totals over them, through Dagster.

Everything is real: the broker is a separate process on the loopback interface, which ends with the demo. With `--keep`
it runs until Ctrl-C, so that the run can be examined in Dagster while Kafka is available.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click
import orjson
from rich.console import Console
from rich.progress import track
from rich.table import Table

from rs_assets.common.plural import count_of

if TYPE_CHECKING:
    from rs_assets.stream.pipeline import Pipeline
    from rs_assets.testing import KafkaBroker, KafkaRecord

PARTITIONS = 4
SHOWN = 8
FIELDS = ("start_time", "ordered", "paid", "owed")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--orders", default=20_000, show_default=True, type=click.IntRange(min=1), help="How many orders.")
@click.option("--keep", is_flag=True, help="Leave the broker running until Ctrl-C.")
def main(orders: int, *, keep: bool) -> None:
    """Start a Kafka broker, fill it, run the example order_totals through Dagster and show the results."""
    from rs_assets.cli.run.console import run_and_show
    from rs_assets.dagster.runs.launch import LaunchRequest
    from rs_assets.testing import KafkaBroker

    out = Console()
    with out.status("starting a Kafka broker"):
        broker = KafkaBroker(partitions_default=PARTITIONS).start()
    try:
        out.print(f"a Kafka broker answers at [bold]{broker.bootstrap_servers}[/]")
        _fill(broker, orders, out)
        # The topics are new ones, so the checkpoint starts from scratch too.
        run_and_show(_pipeline(broker), LaunchRequest(finish=True, new_generation=True), plain=False, as_json=False)
        _show_topic(broker, out)
        if keep:
            _wait(broker, out)
    finally:
        broker.close()


def _fill(broker: KafkaBroker, orders: int, out: Console) -> None:
    from pipelines.order_totals import ORDERS, PAYMENTS, TOTALS
    from pipelines.order_totals_data import events
    from rs_assets.testing import KafkaRecord

    for topic in (ORDERS, PAYMENTS, TOTALS):
        broker.create_topic(topic)
    made = list(track(events(orders), total=None, description="making orders and payments", console=out))
    for topic in (ORDERS, PAYMENTS):
        sent = broker.produce(topic, (KafkaRecord(key=e.key, value=e.value) for e in made if e.topic == topic))
        out.print(f"  {count_of(sent, 'record')} in topic [bold]{topic}[/]")


def _pipeline(broker: KafkaBroker) -> Pipeline:
    os.environ["RS_KAFKA"] = broker.bootstrap_servers
    from pipelines.order_totals import order_totals

    return order_totals(broker.bootstrap_servers)


def _show_topic(broker: KafkaBroker, out: Console) -> None:
    from pipelines.order_totals import TOTALS

    records = broker.read(TOTALS)
    table = Table(title=f"topic {TOTALS}: {count_of(len(records), 'record')}, read committed", title_justify="left")
    for name in ("partition", "offset", "key", *FIELDS):
        table.add_column(name, overflow="fold")
    for cells in _cells(records[:SHOWN]):
        table.add_row(*cells)
    out.print()
    out.print(table)
    out.print("rows out of the run counts a row once for each output: the topic and the table have the same rows")


def _cells(records: Iterable[KafkaRecord]) -> Iterator[tuple[str, ...]]:
    for record in records:
        value = orjson.loads(record.value or b"{}")
        fields = (str(value.get(name, "")) for name in FIELDS)
        yield str(record.partition), str(record.offset), (record.key or b"").decode(), *fields


def _wait(broker: KafkaBroker, out: Console) -> None:
    import threading

    out.print(f"\nthe broker stays; use it with [bold]RS_KAFKA={broker.bootstrap_servers} make ui[/]. Ctrl-C ends it.")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        out.print("the broker ends")


if __name__ == "__main__":
    main()
