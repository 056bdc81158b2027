"""The source of streams of Redis."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import orjson
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from rs_assets.checkpoint.source_log import SourceBatch
from rs_assets.connectors.infer import json_schema
from rs_assets.connectors.own.spark_source import registered
from rs_assets.connectors.redis.address import RedisPlace
from rs_assets.connectors.redis.client import RedisClient, connected, refuse_cluster
from rs_assets.connectors.redis.source.decoding import decoded
from rs_assets.connectors.redis.source.plan import Starting, StreamsPlan
from rs_assets.connectors.redis.source.streams import IDS, Facts, check_there, dumped, facts_of, id_of, loaded
from rs_assets.connectors.source import Ends, Known, Lag, Positions, Reading, Start, sealed_error
from rs_assets.errors import ConfigurationError, SourceReadError

# How many entries of each stream a schema is inferred from.
SAMPLE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsReader:
    """Exactly once while the streams keep their entries; entries that are gone before they were read are an error."""

    name: str
    place: RedisPlace
    streams: tuple[str, ...]
    form: str = "fields"
    value: str = "value"
    metadata: tuple[str, ...] = ()
    starting: Starting = "earliest"
    max_rows_per_batch: int | None = None

    def stream(self, reading: Reading) -> DataFrame:
        """The entries from the beginning of the first start."""
        schema, form = self._schema(reading), self._registered(reading)
        reader = reading.spark.readStream.name(reading.name).format(form)
        if self.max_rows_per_batch is not None:
            reader = reader.option("max_rows_per_batch", self.max_rows_per_batch)
        return decoded(reader.load(), self.form, schema, self.metadata, addressed=reading.positioned)

    def batch(self, reading: Reading, batch: SourceBatch) -> DataFrame:
        """The entries between the offsets of a batch; the line is the number of the id."""
        schema, form = self._schema(reading), self._registered(reading)
        start, end = (orjson.dumps(dumped(loaded(text))).decode() for text in (batch.start, batch.end))
        rows = reading.spark.read.format(form).option("start", start).option("end", end).load()
        return decoded(rows, self.form, schema, self.metadata, addressed=True)

    @property
    def positioned(self) -> bool:
        """True: an entry has its stream, and the number of its id is its position."""
        return True

    def splits(self, batch: SourceBatch) -> Positions:
        """A stream is a split; its offset is the id that was read last."""
        return {stream: f'"{id_of(max(0, at.last))}"' for stream, at in loaded(batch.end).items()}

    def check(self, start: Start) -> Known:
        """Each stream must not end before what was read of it, and still have what was not read."""
        with connected(self.place.address(), SourceReadError, step=self.name) as client:
            refuse_cluster(client, SourceReadError, step=self.name)
            facts = self._facts(client)
            for log in start.logs:
                read = loaded(log.committed)
                for stream, at in read.items():
                    check_there(stream, facts.get(stream, Facts(-1, 0, 0)), at)
                if start.sealed and any(each.added > read.get(s, each.begin).added for s, each in facts.items()):
                    raise sealed_error(self.name)
        return start.known

    def ends(self, patience: timedelta) -> Ends:
        """The number of the last id of each stream."""
        with connected(self.place.address(), SourceReadError, step=self.name, patience=patience) as client:
            return {stream: each.last for stream, each in self._facts(client).items()}

    def lag(self, offset: str | None, patience: timedelta) -> Lag:
        """The number of unread entries."""
        read = loaded(offset)
        with connected(self.place.address(), SourceReadError, step=self.name, patience=patience) as client:
            facts = self._facts(client)
        return Lag(records=sum(max(0, each.added - read.get(s, each.begin).added) for s, each in facts.items()))

    def _facts(self, client: RedisClient) -> dict[str, Facts]:
        return {stream: facts_of(client, stream) for stream in self.streams}

    def _registered(self, reading: Reading) -> str:
        plan = StreamsPlan(
            step=self.name,
            address=self.place.address(),
            streams=self.streams,
            starting=self.starting,
            value=self.value if self.form == "json" else None,
        )
        return registered(reading.spark, plan, key=f"{reading.folder}/{reading.name}", ddl=plan.ddl, offsets=IDS)

    def _schema(self, reading: Reading) -> StructType | None:
        """The declared, inferred or pinned schema; None for the format with fixed fields."""
        return reading.schema_of(lambda: self._inferred(reading.spark)) if self.form != "raw" else None

    def _inferred(self, spark: SparkSession) -> StructType:
        """The schema of the first entries of each stream: that of their JSON, or text fields by their names."""
        with connected(self.place.address(), SourceReadError, step=self.name) as client:
            found = [entry for stream in self.streams for _, entry in client.xrange(stream, count=SAMPLE)]
        if self.form == "json":
            texts = [entry.get(self.value.encode(), b"").decode(errors="replace") for entry in found]
            return json_schema(spark, [*filter(None, texts)], step=self.name, where="the streams contain")
        names = {name.decode(errors="replace"): None for entry in found for name in entry}
        if not names:
            raise ConfigurationError(
                f"step {self.name!r} has no schema, and the streams contain no entry to infer one from",
                remedy="pass schema='...'",
                step=self.name,
            )
        return StructType([StructField(name, StringType()) for name in names])
