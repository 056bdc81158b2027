"""Small pipelines that the tables of followed remedies begin with; no Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rs_assets import StreamBuilder, Time, TumblingWindow

FIELDS = "page string, ms bigint, paid boolean, tags array<string>, ts timestamp"
TEN = TumblingWindow.of(Time.seconds(10), "ts")
MINUTE = TumblingWindow.of(Time.minutes(1), "end_time")
BROKER = "localhost:9092"


class Case(NamedTuple):
    """What is refused at `place`, words of its remedy, and what these words say to write instead."""

    place: str
    wrong: Callable[[], object]
    words: str
    right: Callable[[], object]


def begin(job="hits"):
    return StreamBuilder.data_stream("shop", job)


def hits(name="file", job="hits", schema=FIELDS, **how):
    return begin(job).from_file("in.jsonl", schema=schema, name=name, **how)


def two(schema=FIELDS, **how):
    """Two streams of one pipeline, `a` and `b`."""
    builder = begin("two")
    return [builder.from_file(f"{each}.jsonl", schema=schema, name=each, **how) for each in "ab"]


def from_kafka(topic="in", **how):
    return begin("k").from_kafka(BROKER, topic, **{"schema": "page string", **how})


def counted(stream=None, window=TEN, name="window", **how):
    """Windows of a stream that count by page."""
    return (stream or hits()).window(window, name=name, **how).group_by("page").count("n")


def built(stream):
    return stream.to_print().build()
