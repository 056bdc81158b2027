"""Pipelines with settings of all kinds; as a program it prints the digests of their code."""

from __future__ import annotations

from typing import Any

from rs_assets import Dimension, F, MemoryChannel, Processor, StreamBuilder, Time, TumblingWindow, ValueStore
from rs_assets.stream.data_stream import DataStream
from rs_assets.topology.topology import Topology

SCHEMA, OWNERS = "page string, ms bigint, ts timestamp", "page string, owner string"
MINUTE = TumblingWindow.of(Time.minutes(1), "ts")


class Largest:
    """An accumulator; its class is the setting."""

    def create(self) -> int:
        return 0

    def accumulate(self, accumulator: int, row: dict[str, Any]) -> int:
        return max(accumulator, row["ms"])

    def value(self, accumulator: int) -> dict[str, Any]:
        return {"worst": accumulator}


class Smallest(Largest):
    def accumulate(self, accumulator: int, row: dict[str, Any]) -> int:
        return min(accumulator, row["ms"])


# Other code under the same name.
Smallest.__qualname__ = Smallest.__name__ = "Largest"


class Count(Processor):
    """Counts the clicks of a page."""

    seen = ValueStore("n int")

    def process(self, key: Any, row: Any, context: Any) -> None:
        context.forward({"n": 1})


class Double(Count):
    def process(self, key: Any, row: Any, context: Any) -> None:
        context.forward({"n": 2})


Double.__qualname__ = Double.__name__ = "Count"


class Sink:
    """A sink of the user's, whose attributes change while it is used."""

    name = "own"

    def __init__(self, lock: object = None) -> None:
        self.lock = lock

    def committed(self, mark: Any) -> bool:
        return False

    def last_committed(self, mark: Any) -> None:
        return None

    def stage(self, frame: Any, mark: Any) -> Any:
        raise NotImplementedError

    def location(self) -> str:
        return "own"


def longer(value: Any, row: dict[str, Any]) -> dict[str, Any]:
    return {"worst": max(row["ms"], value["worst"] if value else 0)}


def shorter(value: Any, row: dict[str, Any]) -> dict[str, Any]:
    return {"worst": min(row["ms"], value["worst"] if value else 0)}


def doubled(row: dict[str, Any]) -> dict[str, Any]:
    return {"ms": row["ms"] * 2}


def tripled(row: dict[str, Any]) -> dict[str, Any]:
    return {"ms": row["ms"] * 3}


def begin(**source: Any) -> DataStream:
    return StreamBuilder.data_stream("shop", "code").from_file("in.jsonl", schema=SCHEMA, **source)


def built(stream: Any) -> Topology:
    made: Topology = stream.to_print().build().topology
    return made


def windows(stream: DataStream) -> DataStream:
    return stream.window(MINUTE).group_by("page").count("n").to_data_stream()


def reduced(function: Any, **more: Any) -> DataStream:
    return begin().window(MINUTE).group_by("page").reduce(function, schema="worst bigint", **more).to_data_stream()


def totals(function: Any) -> Any:
    """A table whose rows a function makes, above a table with state."""
    table = begin().to_table("page", order_by="ts").map_values(function, schema="ms bigint")
    return table.group_by("ms").count("n").to_table(name="totals")


def processed(processor: type) -> Any:
    return begin().process(processor, keys="page", schema="n int")


def lookup() -> list[dict[str, Any]]:
    return [{"page": "/", "owner": "me"}]


def kafka(**settings: Any) -> DataStream:
    given = {"bootstrap_servers": "broker:9092", **settings}
    return StreamBuilder.data_stream("shop", "code").from_kafka(topic="clicks", schema=SCHEMA, **given)


def pipelines() -> dict[str, Topology]:
    """Pipelines of all kinds of settings; made anew in each process."""
    pages = {"/", "/a", "/b", "/c"}
    return {
        "windows": built(windows(begin().filter(lambda row: row["page"] in pages and row["ms"] > 1))),
        "columns": built(begin().filter(F.col("page").isin(*sorted(pages)) & (F.col("ms") > 1))),
        "conditions": built(begin().filter("ms > 1").expect("ms < 9").select_fields("page", "ms")),
        "script": built(begin().script("page = upper(page)")),
        "reduced": built(reduced(longer)),
        "merged": built(reduced(longer, merge=max)),
        "accumulated": built(reduced(Largest())),
        "processed": built(processed(Count)),
        "table": built(totals(doubled).to_stream()),
        "looked up": built(begin().dim_join(Dimension.from_loader(lookup, schema=OWNERS), on="page")),
        "kafka": built(windows(kafka(options={"fetch.min.bytes": "1", "client.rack": "a"}))),
        "shuffled": built(windows(begin().shuffle(2, strategy="delta"))),
        "own": begin().to(Sink(object())).build().topology,
        "memory": built(StreamBuilder.data_stream("shop", "code").from_memory(MemoryChannel(schema=SCHEMA))),
    }


def digests() -> str:
    """The digests of all of them, as one text."""
    return str({name: (topology.code, topology.fingerprint) for name, topology in pipelines().items()})


if __name__ == "__main__":
    print(digests())
