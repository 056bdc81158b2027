"""The lookup function of Spark's Python workers: keys in, the rows of each key out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import ArrayType, StructType

from rs_assets.common.errors_wire import wired
from rs_assets.errors import CheckpointError, DataLossError
from rs_assets.operators.dimension.index import Index
from rs_assets.operators.dimension.keys import Key
from rs_assets.operators.dimension.notes import Versions
from rs_assets.operators.dimension.ranges import RangeIndex, open_index

# The local property of Spark that carries the versions of a batch to its tasks.
PROPERTY = "rs_assets.dimensions"
# Mapped files that a worker keeps open: both versions of a change, for a few dimensions.
MAPPED = 8

_open: OrderedDict[Path, Index | RangeIndex] = OrderedDict()


@dataclass(frozen=True, slots=True)
class Lookup:
    """Runs in a worker. `root` has the versions of the step's dimension; `version` None: that of the batch.

    Keys come as the `keys` of the dimension, results are lists of structs with the fields `fields`.
    """

    step: str
    root: Path
    keys: tuple[Key, ...]
    fields: tuple[str, ...]
    version: str | None = None

    def column(self, keys: Sequence[Column], schema: StructType) -> Column:
        """The rows of `keys`, as an array of structs of `schema`; computed once per use."""
        look = self.find

        def found(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
            return look(batches)

        # Not deterministic: the result depends on the version of the batch.
        made: Column = arrow_udf(found, ArrayType(schema)).asNondeterministic()(*keys)  # type: ignore[call-overload]
        return made

    def find(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """An array of lists for each batch of keys, all from one version."""
        with wired():
            index = self._index()
            for keys in batches:
                # Spark passes a single column as it is.
                ends, rows = index.find(keys if isinstance(keys, tuple) else (keys,))
                values = [index.values(name, rows) for name in self.fields]
                structs = pa.StructArray.from_arrays(values, names=list(self.fields))
                yield pa.ListArray.from_arrays(pa.array(ends.astype("int32")), structs)

    def _index(self) -> Index | RangeIndex:
        folder = self.root / (self.version or version_of_batch(self.step))
        if folder in _open:
            _open.move_to_end(folder)
        else:
            try:
                _open[folder] = open_index(folder, self.keys)
            except (OSError, pa.ArrowException) as error:
                raise CheckpointError(
                    f"a version of the dimension of step {self.step!r} cannot be read: {error}",
                    remedy="put its folder back; all machines of a cluster must see it under this path",
                    file=folder,
                ) from error
            while len(_open) > MAPPED:
                _open.popitem(last=False)
        return _open[folder]


def version_of_batch(step: str) -> str:
    """The version of a step's dimension that was recorded for the batch of this task.

    DataLossError if there is none: code that has this step reads the batch again, and other code has computed it.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    told = context.getLocalProperty(PROPERTY) if context is not None else None
    noted: Versions = orjson.loads(told) if told else {}
    if step not in noted:
        raise DataLossError(
            f"step {step!r} was added or renamed after a batch that is read again, which has looked nothing up in it",
            remedy="read that batch again by the code that ran then, or look at later batches only",
            step=step,
        )
    return noted[step]


def tell_tasks(spark: SparkSession, versions: Versions) -> None:
    """Let the tasks that this thread starts use `versions`."""
    spark.sparkContext.setLocalProperty(PROPERTY, orjson.dumps(dict(versions)).decode())
