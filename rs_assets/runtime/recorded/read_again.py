"""Records at known places, read again in their recorded batches: which of them the current code accepts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rs_assets.common.chunks import in_chunks
from rs_assets.compile.readers import batch_reader
from rs_assets.compile.sink import rows_for
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.nodes import Source
from rs_assets.connectors.redrives import NOWHERE
from rs_assets.errors import DataError
from rs_assets.records.columns import BATCH, LINE, OFFSET, RAW, REASON, SPLIT
from rs_assets.runtime.recorded.recompute import TOGETHER, together, union
from rs_assets.runtime.recorded.recorded import RecordedQuery, translated
from rs_assets.runtime.replay.bisect import culprits
from rs_assets.runtime.replay.examine import SHOWN, blames_a_record, quiet
from rs_assets.runtime.replay.replay import Replay
from rs_assets.runtime.translate import translate

PLACES: Final = "_rs_at_split string, _rs_at_line bigint, _rs_at_offset bigint"
# The first hexadecimal digits of the digest of a text, of which many can be added up.
DIGITS: Final = 15


class Place(NamedTuple):
    """Where a record was read."""

    batch: int
    split: str
    line: int
    offset: int


class Texts(NamedTuple):
    """The texts of the records at a place: how many there are, and the sum of their digests.

    >>> Texts.of(["a", None]) == Texts.of([None, "a"]), Texts.of(["a"]) == Texts.of(["b"])
    (True, False)
    """

    number: int
    digests: int

    @classmethod
    def of(cls, texts: Collection[str | None]) -> Texts:
        """Those of `texts`, each at most as long as a dead letter keeps it; null is the text of no record."""
        digests = (sha256(text.encode()).hexdigest()[:DIGITS] for text in texts if text is not None)
        return cls(len(texts), sum(int(digest, 16) for digest in digests))


NO_TEXT: Final = Texts(0, 0)


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """The records of one source, on their way to one output without state; on the driver's thread."""

    spark: SparkSession
    query: RecordedQuery
    source: Source
    sink: DeltaSink

    def found(self, places: Collection[Place]) -> tuple[Mapping[Place, Texts], frozenset[int]]:
        """The texts of the records at `places`, and the batches whose input is gone."""
        found, gone = dict[Place, Texts](), set[int]()
        for batches in _in_parts(places):
            try:
                found.update(self._found(batches, places))
            except DataError:
                # The input of one of them is gone: the others can still be read.
                for batch in batches:
                    try:
                        found.update(self._found([batch], places))
                    except DataError:
                        gone.add(batch)
        return found, frozenset(gone)

    def refused(self, places: Sequence[Place]) -> Mapping[Place, str]:
        """The reasons for which steps refuse records, by place; RsError if they cannot be read or computed."""
        failing: dict[Place, str] = {}

        def fails(part: tuple[Place, ...]) -> Exception | None:
            try:
                self._refused([place for place in part if place not in failing])
            except Exception as error:
                if not blames_a_record(error):
                    raise
                return error
            return None

        with quiet(), translated(self.query.plan.name):
            for part, error in culprits(tuple(places), fails, _halves):
                failing[part[0]] = translate(error, query=self.query.plan.name).what[:SHOWN]
            return {**failing, **self._refused([place for place in places if place not in failing])}

    def rows(self, places: Collection[Place], folder: Path) -> DataFrame:
        """The rows of records for the output; those of many batches through files in `folder`.

        A function that raises now, although it did not when the records were judged, ends the computation.
        """
        replays = (self._replay(batch, places, quarantines=False) for batch in _batches(places))
        return together(self.spark, map(self._rows, replays), folder)

    def _found(self, batches: Sequence[int], places: Collection[Place]) -> Mapping[Place, Texts]:
        with translated(self.query.plan.name):
            frames = [self._read(batch, places) for batch in batches]
            digits = F.substring(F.sha2(F.col(RAW), 256), 1, DIGITS)
            digests = F.coalesce(F.sum(F.conv(digits, 16, 10).cast("decimal(38,0)")), F.lit(0)).alias("digests")
            rows = union(frames).groupBy(BATCH, SPLIT, LINE, OFFSET).agg(F.count(F.lit(1)).alias("n"), digests)
            found = rows.collect()
        return {
            Place(row[BATCH], row[SPLIT], row[LINE], row[OFFSET]): Texts(row["n"], int(row["digests"])) for row in found
        }

    def _read(self, batch: int, places: Collection[Place]) -> DataFrame:
        rows = batch_reader(self.query.log, batch)(self.query.context, self.source)
        return _placed(self._at(rows, batch, places), batch, RAW)

    def _refused(self, places: Collection[Place]) -> dict[Place, str]:
        """The reasons of the gates; the rows of all other records are computed, too, so that a step may raise."""
        reasons: dict[Place, str] = {}
        for batches in _in_parts(places):
            replays = [(batch, self._replay(batch, places)) for batch in batches]
            reasons.update(_reasons(replays))
            for _, replay in replays:
                self._rows(replay).write.format("noop").mode("overwrite").save()
        return reasons

    def _rows(self, replay: Replay) -> DataFrame:
        return rows_for(self.sink, replay.wired.flows[self.sink.inputs[0]].df)

    def _replay(self, batch: int, places: Collection[Place], *, quarantines: bool = True) -> Replay:
        """A batch wired by the current code over some of its records.

        Records that failed before are tried again. With `quarantines` one that a function cannot compute is refused.
        """

        def only(node: Source, rows: DataFrame) -> DataFrame:
            if node.name != self.source.name:
                return rows.limit(0)
            return self.query.kept(batch, node, self._at(rows, batch, places), into=self.sink)

        replay = self.query.replay(batch, only)
        context = replace(replay.context, poisons={}, quarantines=quarantines)
        return replace(replay, context=context, label=f" for {self.source.name}")

    def _at(self, rows: DataFrame, batch: int, places: Collection[Place]) -> DataFrame:
        """Those of `rows` that are at some of `places` in this batch."""
        here = [place[1:] for place in places if place.batch == batch]
        wanted = F.broadcast(self.spark.createDataFrame(here, PLACES))
        split, line, offset = (wanted[field.name] for field in wanted.schema.fields)
        same = (rows[SPLIT] == split) & (_known(LINE) == line) & (_known(OFFSET) == offset)
        return rows.join(wanted, same, "left_semi")


def _reasons(replays: Iterable[tuple[int, Replay]]) -> dict[Place, str]:
    """The reasons of the gates of some batches, the first one of each record: a job of Spark for each gate."""
    gates: dict[str, list[DataFrame]] = defaultdict(list)
    for batch, replay in replays:
        for dead in replay.wired.dead:
            gates[dead.step].append(_placed(dead.rows, batch, REASON))
    reasons: dict[Place, str] = {}
    for frames in gates.values():
        for row in union(frames).collect():
            reasons.setdefault(Place(row[BATCH], row[SPLIT], row[LINE], row[OFFSET]), row[REASON])
    return reasons


def _placed(rows: DataFrame, batch: int, *fields: str) -> DataFrame:
    """The places of `rows` in a batch, and some of their fields."""
    line, offset = (_known(name).alias(name) for name in (LINE, OFFSET))
    return rows.select(F.lit(batch).cast("bigint").alias(BATCH), SPLIT, line, offset, *fields)


def _known(name: str) -> Column:
    return F.coalesce(F.col(name), F.lit(NOWHERE)).cast("bigint")


def _batches(places: Iterable[Place]) -> list[int]:
    return sorted({place.batch for place in places})


def _in_parts(places: Iterable[Place]) -> Iterator[Sequence[int]]:
    """The batches of `places`, a few at a time."""
    return in_chunks(_batches(places), TOGETHER)


def _halves(part: tuple[Place, ...]) -> tuple[tuple[Place, ...], tuple[Place, ...]] | None:
    middle = len(part) // 2
    return (part[:middle], part[middle:]) if middle else None
