"""Where a pipeline begins: a namespace, a job, and its sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

from pipelines.stream.data_stream import DataStream
from pipelines.stream.draft import Draft
from pipelines.topology.source import ArraySource, FileSource, Format, MemorySource, Source
from resources.names import checked_name
from resources.source.memory import MemoryChannel
from resources.source.policy import BadRecords


class StreamBuilder:
    """The entry to the fluent API."""

    @staticmethod
    def data_stream(namespace: str, job: str) -> DataStreamSource:
        """Begin the pipeline `job` in `namespace`; both are names of a-z, 0-9 and _.

        >>> stream = StreamBuilder.data_stream("shop", "hello").from_array([{"page": "/"}])
        >>> stream.to_print().build().name
        'shop.hello'
        """
        return DataStreamSource(Draft(checked_name(namespace, what="namespace"), checked_name(job, what="job")))


@dataclass(frozen=True, slots=True)
class DataStreamSource:
    """The sources of one pipeline; each `from_*` call gives a stream, and several of them may be united."""

    draft: Draft

    def from_array(
        self, rows: Iterable[Mapping[str, Any]], *, schema: str | None = None, name: str = "array"
    ) -> DataStream:
        """Rows given in the program; a bounded source. Without `schema` the types are inferred from the rows."""
        return self._begin(ArraySource(name=name, rows=tuple(rows), schema=schema))

    def from_memory(self, channel: MemoryChannel, *, name: str = "memory") -> DataStream:
        """Rows that the program puts into `channel`, now or while the pipeline runs; bounded once it is closed."""
        return self._begin(MemorySource(name=name, channel=channel, schema=channel.schema))

    def from_file(
        self,
        path: str | PathLike[str],
        format: Format = "json",  # noqa: A002  the name is fixed by the public surface
        *,
        schema: str | None = None,
        tail: bool = False,
        pattern: str | None = None,
        time_format: str | None = None,
        header: bool = True,
        bad_records: str | BadRecords = BadRecords.FAIL,
        max_files_per_batch: int | None = None,
        max_rows_per_batch: int | None = None,
        name: str = "file",
    ) -> DataStream:
        """Rows from a file, a directory or a glob.

        One file that does not grow is bounded; a directory, a glob and `tail=True` are not. `schema` is DDL text; left
        out it is inferred from a sample at the first start and then pinned. `format="text"` gives the field `value`,
        or, with `pattern` (a regular expression with named groups), one field a group, cast to `schema`; `time_format`
        is the pattern of its timestamps. `bad_records` says what happens to a record that does not parse: fail,
        dead_letter, quarantine (those too on which a Python step raises) or skip. Gzip and zstd files are read by their
        ending (.gz, .zst).

        >>> source = StreamBuilder.data_stream("shop", "hits")
        >>> stream = source.from_file("hits.jsonl", schema="page string, ms bigint", bad_records="dead_letter")
        """
        return self._begin(
            FileSource(
                name=name,
                path=fspath(path),
                format=format,
                schema=schema,
                tail=tail,
                pattern=pattern,
                time_format=time_format,
                header=header,
                policy=BadRecords.of(bad_records),
                max_files_per_batch=max_files_per_batch,
                max_rows_per_batch=max_rows_per_batch,
            )
        )

    def _begin(self, source: Source) -> DataStream:
        return DataStream(self.draft, self.draft.add(source))
