"""Delta tables as a source and as a sink."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from rs_assets.common.names import checked_path
from rs_assets.common.node import NO_EFFECT, positive
from rs_assets.common.project import anchored
from rs_assets.common.storage import is_remote
from rs_assets.common.uri import LOCAL
from rs_assets.connectors.delta.files.event_partitions import EventTimePartitions
from rs_assets.connectors.location import REMOTE, written_place
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.errors import TopologyError
from rs_assets.records.columns import RETRACTED
from rs_assets.records.policy import BadRecords

DeltaMode = Literal["append", "upsert", "history", "complete"]
KeyedMode = Literal["upsert", "history"]
DeltaConnector = Literal["native", "jvm"]
# What becomes of fields that the table lacks.
OnNewFields = Literal["fail", "add"]
# Modes by which rows of the same keys belong together.
KEYED = get_args(KeyedMode)
# The columns of a history besides those of its rows.
FROM, TO, CURRENT = "valid_from", "valid_to", "current"
VALIDITY = (FROM, TO, CURRENT)
# The property of a table with a change feed.
FEED = "delta.enableChangeDataFeed"
# The fields that a row of the change feed has besides those of its table.
CHANGES = "_change_type string, _commit_version bigint, _commit_timestamp timestamp"
FEED_COLUMNS = tuple(part.split()[0] for part in CHANGES.split(", "))


def _elsewhere(table: str) -> bool:
    """Whether it is an address of a system whose tables are not read."""
    return REMOTE.match(table) is not None and not is_remote(table)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSource(Source):
    """Rows added to a table, or all `changes` of it; unbounded.

    `table` is a name, of a table of `namespace` below the home, or a path, which becomes absolute.
    """

    icon: ClassVar[str] = "deltalake"

    namespace: str
    table: str
    changes: bool = False
    starting: int | None = field(default=None, metadata=NO_EFFECT)
    policy: BadRecords = BadRecords.FAIL

    def __post_init__(self) -> None:
        """Refuse invalid tables and versions, and make the path absolute."""
        Source.__post_init__(self)
        if not isinstance(self.table, str) or not self.table or "\0" in self.table or _elsewhere(self.table):
            raise TopologyError(
                f"step {self.name!r}: tables cannot be read from {self.table!r}",
                remedy="use a name, a path of a local or mounted file system, or an address: s3://bucket/table",
                step=self.name,
            )
        if self.starting is not None and self.starting != 0 and not positive(self.starting):
            raise TopologyError(
                f"the starting version of step {self.name!r} must be a whole number from 0, not {self.starting!r}",
                remedy="starting_version=3",
                step=self.name,
            )
        plain = written_place(self.table)
        object.__setattr__(self, "table", anchored(plain) if "/" in plain and not is_remote(plain) else plain)

    @property
    def origin(self) -> tuple[str, ...]:
        """The table, and whether its rows or its changes are read."""
        return ("delta", self.namespace, self.table, "changes" if self.changes else "rows")

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy."""
        return self.policy

    @property
    def row_schema(self) -> str | None:
        """The schema, followed by the fields of the change feed."""
        return f"{self.schema}, {CHANGES}" if self.schema and self.changes else self.schema

    def detail(self) -> str:
        """The table."""
        return f"changes of {self.table}" if self.changes else self.table

    def identity(self) -> tuple[str, ...]:
        """The home may move; the kind of rows and their schema may not change."""
        return (self.table.rpartition("/")[2], str(self.changes), self.schema or "inferred")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSink(Sink):
    """A Delta table; `table` is a name below RS_HOME or a path.

    `append` adds the rows (of a window that emits updates: each update), `upsert` replaces the rows of the same `keys`,
    `complete` holds all windows as they are after each batch. `history` keeps each version of a row of the same `keys`,
    valid from its `time_field` (None: from when its batch is written) until the next one, or its deletion. `connector`
    is the writer: `native` (Spark writes Parquet, delta-rs commits) or `jvm`. Of rows of the same keys the greatest by
    `order_by` wins, whenever it comes; without it the one that was read last. If the field `deletes` of that row is
    true, the keys have no row in the table any more. With `changes` the rows are those of a table with these keys, and
    RETRACTED marks those that go. `partition_by` sets the partitions of a new table, and `change_feed` gives it one;
    `partitions` are those by event time, of a column that the sink adds. With `added_columns="add"` fields that
    the table lacks become columns of it.

    With `late` it gets, instead of the rows of the step before it, the late rows of that step: as that step got them,
    with the watermark that they came after.
    """

    icon: ClassVar[str] = "deltalake"

    table: str
    mode: DeltaMode = "append"
    keys: tuple[str, ...] = ()
    connector: DeltaConnector = field(default="native", metadata=NO_EFFECT)
    order_by: tuple[str, ...] = ()
    deletes: str | None = None
    changes: bool = False
    partition_by: tuple[str, ...] = ()
    change_feed: bool = field(default=False, metadata=NO_EFFECT)
    added_columns: OnNewFields = field(default="fail", metadata=NO_EFFECT)
    late: bool = False
    time_field: str | None = None
    partitions: EventTimePartitions | None = None

    @property
    def adds(self) -> bool:
        """Whether fields that the table lacks become columns of it."""
        return self.added_columns == "add"

    @property
    def partitioned_by(self) -> tuple[str, ...]:
        """The partition columns of a new table."""
        return (*self.partition_by, *((self.partitions.column,) if self.partitions else ()))

    @property
    def read_order(self) -> bool:
        """Whether the winning row depends on the positions at which rows were read."""
        return self.mode in KEYED and not self.changes

    @property
    def flag(self) -> str | None:
        """The boolean column of the rows that delete the row of their keys; None if none does."""
        return RETRACTED if self.changes else self.deletes

    def __post_init__(self) -> None:
        """Refuse invalid combinations of options."""
        Sink.__post_init__(self)
        # A table called "." would be the folder of all others: a clean-up of it would remove their files.
        named = isinstance(self.table, str) and self.table not in {"", "."}
        if not named or "\0" in self.table or ".." in self.table.split("/"):
            raise TopologyError(f"step {self.name!r}: {self.table!r} is not a table name, or a path without '..'")
        place = LOCAL.sub("", self.table)
        if "://" not in place:
            checked_path(place, what=f"step {self.name!r}: the table")
        if self.mode not in get_args(DeltaMode):
            raise TopologyError(
                f"the mode of step {self.name!r} must be one of {', '.join(get_args(DeltaMode))}, not {self.mode!r}",
                remedy=f"use one of: {', '.join(get_args(DeltaMode))}",
            )
        if self.connector not in get_args(DeltaConnector):
            raise TopologyError(
                f"the connector of step {self.name!r} must be 'native' or 'jvm', not {self.connector!r}",
                remedy="connector='native' or connector='jvm'",
            )
        if self.added_columns not in get_args(OnNewFields):
            raise TopologyError(
                f"added_columns of step {self.name!r} must be 'fail' or 'add', not {self.added_columns!r}",
                remedy="added_columns='add'",
            )
        self._check_keys()
        if self.partitions is not None:
            self._check_partitions(self.partitions)

    def _check_keys(self) -> None:
        if (self.mode in KEYED) != bool(self.keys):
            raise TopologyError(
                f"step {self.name!r}: keys belong to mode='upsert' and 'history', which need them",
                remedy="keys=['page']",
            )
        for option, modes in (("order_by", KEYED), ("deletes", KEYED), ("time_field", ("history",))):
            if getattr(self, option) and self.mode not in modes:
                of = " and ".join(f"mode={mode!r}" for mode in modes)
                raise TopologyError(f"step {self.name!r}: {option} belongs to {of}", remedy="leave it out")
        if self.mode == "history" and self.connector != "native":
            raise TopologyError(
                f"step {self.name!r}: only the native connector writes a history", remedy="leave connector= out"
            )
        if self.deletes in self.keys:
            raise TopologyError(f"step {self.name!r}: {self.deletes!r} is a key, so it cannot mark deleted rows")

    def _check_partitions(self, partitions: EventTimePartitions) -> None:
        if not isinstance(partitions, EventTimePartitions):
            raise TopologyError(
                f"step {self.name!r}: partitions= must be EventTimePartitions, not {partitions!r}",
                remedy="partition_by=['country'] for fields of the rows",
            )
        if self.mode not in ("append", "upsert") or self.late:
            what = "late rows" if self.late else f"mode={self.mode!r}"
            raise TopologyError(
                f"step {self.name!r}: {what} cannot be parted by event time, as partitions would not close",
                remedy="leave partitions= out, or use partition_by=",
            )
        if self.mode == "upsert" and partitions.field not in self.keys:
            raise TopologyError(
                f"step {self.name!r}: a row that is replaced may not move to another partition",
                remedy=f"add {partitions.field!r} to its keys",
            )
        if partitions.column in self.partition_by:
            raise TopologyError(
                f"step {self.name!r}: partitions= adds the column {partitions.column!r}",
                remedy="leave it out of partition_by",
            )

    @property
    def named(self) -> tuple[str, ...]:
        """The fields of a row that its settings name."""
        times = (self.deletes, self.time_field, self.partitions.field if self.partitions else None)
        return (*self.keys, *self.order_by, *self.partition_by, *filter(None, times))

    def detail(self) -> str:
        """Mode, table and partitions."""
        by = (*self.partition_by, *((str(self.partitions),) if self.partitions else ()))
        parts = f" partitioned by {', '.join(by)}" if by else ""
        gone = f" but {self.deletes}" if self.deletes else ""
        since = f" by {self.time_field}" if self.time_field else ""
        return f"{'late rows into' if self.late else self.mode} {self.table}{since}{parts}{gone}"
