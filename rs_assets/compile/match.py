"""Rules over a stream: an Arrow function names the rules that hold for each row, Spark does the rest.

The plan is the same for each version of the rules; the version is a local property of the task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from rs_assets.common.errors_wire import wired
from rs_assets.compile.planner.context import CompileContext, Flow
from rs_assets.errors import CheckpointError, TopologyError
from rs_assets.expressions.rules.batch import batch_of
from rs_assets.expressions.rules.match import matches
from rs_assets.expressions.rules.matched import note_matches
from rs_assets.expressions.rules.rule_set import RULE, RuleSet, counted, readable, rows_of, stored
from rs_assets.operators.dimension.lookup import version_of_batch
from rs_assets.operators.join.spec import two_fields
from rs_assets.records.columns import PREFIX, hidden, visible
from rs_assets.records.schema import quoted
from rs_assets.topology.nodes.match import MatchRules

FOUND, ONE = f"{PREFIX}rules", f"{PREFIX}rule"
VERSION, HELD = "version", "held"


def compile_match(context: CompileContext, node: MatchRules, inputs: tuple[Flow, ...]) -> Flow:
    """Name the rules that hold, and give the rows their form."""
    frame = inputs[0].df
    held = context.dimension(node)
    taken = {name.casefold(): name for name in visible(frame.columns)}
    for name in node.added:
        if name.casefold() in taken:
            raise two_fields(taken[name.casefold()], "", step=node.name)
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    fields = counted({name: types[name] for name in visible(frame.columns) if name in (node.reads or types)})
    read = readable(fields)
    if not read:
        remedy = "give the rules texts, numbers or booleans to read"
        raise TopologyError(f"step {node.name!r} has no field that rules can read", remedy=remedy, step=node.name)
    held.prepare(fields)
    carried = StructType([field for field in held.schema.fields if field.name in node.carried])
    judge = Judge(
        step=node.name,
        root=held.root,
        fields=tuple(fields.items()),
        carried=tuple(carried.names),
        version=context.versions.get(node.name) if context.versions is not None else None,
    )
    found = frame.withColumn(FOUND, judge.column([F.col(quoted(name)) for name in read], carried))
    return Flow(_formed(found, frame, node))


def _formed(found: DataFrame, frame: DataFrame, node: MatchRules) -> DataFrame:
    ours = [F.col(quoted(name)) for name in visible(frame.columns)]
    behind = [F.col(quoted(name)) for name in hidden(frame.columns)]
    held, version = F.col(FOUND)[HELD], F.col(FOUND)[VERSION].alias(node.version_field)
    if node.form == "per_match":
        one = found.select("*", F.explode(held).alias(ONE))
        carried = [F.col(ONE)[name].alias(name) for name in node.carried]
        return one.select(*ours, *carried, version, *behind)
    kept = found if node.form == "all" else found.filter(F.size(held) > 0)
    return kept.select(*ours, held[RULE].alias(node.into), version, *behind)


@dataclass(frozen=True, slots=True)
class Judge:
    """Runs in a worker. `root` has the versions of the rules; `version` None: that of the batch.

    `fields` are the fields of the rows with their Spark types, of which those come that conditions can read; `carried`
    are the columns of rules that go.
    """

    step: str
    root: Path
    fields: tuple[tuple[str, str | None], ...]
    carried: tuple[str, ...]
    version: str | None = None

    def column(self, fields: list[Column], carried: StructType) -> Column:
        """The number of the version, and the columns of the rules that hold, by priority."""
        judge = self.judge

        def judged(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
            return judge(batches)

        out = StructType([StructField(VERSION, LongType()), StructField(HELD, ArrayType(carried))])
        # Not deterministic: the result depends on the version of the batch.
        made: Column = arrow_udf(judged, out).asNondeterministic()(*fields)  # type: ignore[call-overload]
        return made

    def judge(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """A struct for each row, all from one version."""
        with wired():
            name = self.version or version_of_batch(self.step)
            rules, table = self._opened(name)
            number = int(name[1:].partition("-")[0])
            carried = [table[column].combine_chunks().take(rules.rows) for column in self.carried]
            rules_named = carried[self.carried.index(RULE)]
            names = list(readable(dict(self.fields)))
            for columns in batches:
                # Spark passes a single column as it is.
                batch = batch_of(names, columns if isinstance(columns, tuple) else (columns,))
                rows, held = matches(rules.compiled, batch)
                note_matches(self.root, name, len(rules), held, lambda rule: rules_named[rule].as_py())
                ends = np.searchsorted(rows, np.arange(batch.rows + 1)).astype("int32")
                values = pa.StructArray.from_arrays([each.take(pa.array(held)) for each in carried], list(self.carried))
                lists = pa.ListArray.from_arrays(pa.array(ends), values)
                versions = pa.array(np.full(batch.rows, number, np.int64))
                yield pa.StructArray.from_arrays([versions, lists], [VERSION, HELD])

    def _opened(self, name: str) -> tuple[RuleSet, pa.Table]:
        try:
            table = rows_of(self.root / name)
            return stored(self.root, name, dict(self.fields), step=self.step), table
        except (OSError, pa.ArrowException) as error:
            raise CheckpointError(
                f"a version of the rules of step {self.step!r} cannot be read: {error}",
                remedy="put its folder back; all machines of a cluster must see it under this path",
                file=self.root / name,
            ) from error
