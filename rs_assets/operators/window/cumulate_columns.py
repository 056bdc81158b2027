"""Cumulating windows, with one start and an end per step, as a Spark column."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from rs_assets.operators.window.spec import CumulateWindow


def cumulate_windows(at: Column, window: CumulateWindow) -> Column:
    """The windows of the instant `at`, from the shortest: an array of structs of the instants `start` and `end`."""
    micros = F.unix_micros(at)
    since = F.pmod(micros - F.lit(_micros(window.offset)), F.lit(_micros(window.size)))
    start, step = micros - since, F.lit(_micros(window.step))
    first = start + since - F.pmod(since, step) + step
    ends = F.sequence(first, start + F.lit(_micros(window.size)), step)
    return F.transform(
        ends, lambda end: F.struct(F.timestamp_micros(start).alias("start"), F.timestamp_micros(end).alias("end"))
    )


def _micros(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)
