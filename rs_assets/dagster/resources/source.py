"""The source family as a Dagster resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from rs_assets.common.home import Home
from rs_assets.common.node import Family
from rs_assets.connectors.files.lines.reading import MAX_LINE_BYTES
from rs_assets.connectors.source import Ends
from rs_assets.dagster.resources.family import FamilyResource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rs_assets.dagster.resources.spark import SparkResource
    from rs_assets.stream.data_stream import DataStream


class SourceResource(FamilyResource):
    """How sources read; reads a source in an op of your own, to its present end.

    >>> from rs_assets import StreamBuilder
    >>> from rs_assets.dagster.resources.spark import SparkResource
    >>> given = [{"page": "/a", "ms": 12}, {"page": "/b", "ms": 90}]
    >>> hits = StreamBuilder.data_stream("shop", "hits").from_array(given)
    >>> rows = SourceResource().read(hits.filter("ms > 50"), spark=SparkResource(share=True))
    >>> [row.asDict() for row in rows.collect()]
    [{'page': '/b', 'ms': 90}]
    """

    family: ClassVar[Family] = "source"

    max_rows_per_batch: int = Field(
        default=0, ge=0, description="The most rows of a batch, of sources with such a limit; 0: as each step says"
    )
    max_files_per_batch: int = Field(
        default=0, ge=0, description="The most files of a batch, of sources of whole files; 0: as each step says"
    )
    bad_records: Literal["as_written", "fail", "dead_letter", "quarantine", "skip"] = Field(
        default="as_written", description="The policy for bad records of all sources; as_written: as each step says"
    )
    max_line_bytes: int = Field(
        default=MAX_LINE_BYTES, gt=0, description="A longer line of a followed file is a bad record"
    )

    def settings(self) -> Mapping[str, Any]:
        """The limits of batches and lines, and the policy for bad records."""
        return {
            "max_rows_per_batch": self.max_rows_per_batch or None,
            "max_files_per_batch": self.max_files_per_batch or None,
            "bad_records": None if self.bad_records == "as_written" else self.bad_records,
            "max_line_bytes": self.max_line_bytes,
        }

    def read(self, stream: DataStream, *, spark: SparkResource, home: Home | None = None) -> DataFrame:
        """The rows of a source to its present end, as its pipeline would read them.

        Each call reads from the beginning. A record that cannot be used ends it under `bad_records="fail"`; otherwise
        it is left out, counted in the log, and not kept as a dead letter.

        - `stream` (DataStream): a source, which stateless steps may follow. TopologyError for a step with state.
        - `spark` (SparkResource): the session.
        - `home` (Home, default RS_HOME): where tables that are given by name are.
        """
        from rs_assets.dagster.resources.frames import read

        return read(stream, self.folder(), driver=spark.driver, home=home or Home.default(), **self.settings())

    def splits(self, stream: DataStream, *, home: Home | None = None) -> Mapping[str, Ends]:
        """The splits of each source upstream of `stream`, with their present ends; needs no Spark.

        Sources whose splits cannot be listed are left out. SourceReadError if a system does not answer in 5 seconds.

        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import StreamBuilder
        >>> with TemporaryDirectory() as folder:
        ...     log = Path(folder, "hits.jsonl")
        ...     written = log.write_text('{"page": "/a"}')
        ...     hits = StreamBuilder.data_stream("shop", "logs").from_file(log, schema="page string", tail=True)
        ...     ends = SourceResource().splits(hits)["file"]
        >>> list(ends.values())
        [14]
        """
        from rs_assets.connectors.nodes import Source
        from rs_assets.dagster.sensors.inputs import ends_of

        nodes = stream.draft.preview(stream.step)
        return ends_of([node for node in nodes if isinstance(node, Source) and not node.follows], home)
