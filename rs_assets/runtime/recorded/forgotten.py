"""Records of keys that were forgotten: recorded batches are read again without them, for outputs that have such keys.

Of other outputs, as sums by another key, the rows stay as they are: so does what is computed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rs_assets.catalog.forgotten import ForgottenKeys, forgotten_keys
from rs_assets.catalog.ledger import Ledger
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.delta.table import open_table
from rs_assets.connectors.nodes import Source
from rs_assets.records.schema import quoted
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.upkeep.returns import valid_batches


@dataclass(frozen=True, slots=True)
class Removal:
    """The keys of one entry of the ledger, and the last batch of a query that had records of them."""

    keys: ForgottenKeys
    last: int


def removals(session: JobSession, plan: QueryPlan) -> tuple[Removal, ...]:
    """Those of a query that its checkpoint has not begun after: a new generation has read the records again."""
    entries = forgotten_keys(Ledger(session.options.home.catalog, session.topology.name))
    valid = valid_batches(session.manifest, plan) or {} if entries else {}
    found = ((each, each.batches.get(session.folders[plan.name])) for each in entries)
    return tuple(Removal(each, at[1]) for each, at in found if at is not None and at[0] in valid)


def without(
    rows: DataFrame, batch: int, source: Source, sink: DeltaSink, session: JobSession, known: tuple[Removal, ...]
) -> DataFrame:
    """The records of a batch without those of forgotten keys, if the output has a column of them."""
    for removal in (each for each in known if batch <= each.last):
        fields = set(_fields(removal.keys, sink, session))
        for column, field in removal.keys.named(source.name).items():
            if field in fields and column in rows.columns:
                text = F.concat(F.lit(f"{removal.keys.salt}:{field}:"), F.col(quoted(column)).cast("string"))
                gone = F.sha2(text, 256).isin(list(removal.keys.digests[field]))
                rows = rows.filter(~F.coalesce(gone, F.lit(False)))  # noqa: FBT003
    return rows


def _fields(keys: ForgottenKeys, sink: DeltaSink, session: JobSession) -> Iterator[str]:
    """The fields of which the output has a column."""
    table = open_table(session.options.home.table(session.topology.namespace, sink.table))
    columns = {field.name for field in table.schema().fields} if table is not None else set()
    for place in (sink.name, sink.table):
        yield from (field for column, field in keys.named(place).items() if column in columns)
