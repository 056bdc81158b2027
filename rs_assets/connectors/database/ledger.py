"""The ledger of a database's sinks: which batch each writer has committed, and who may write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Insert,
    MetaData,
    String,
    Table,
    Update,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.dialects.mysql import VARCHAR
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from rs_assets.connectors.database.types import MYSQL_TABLE
from rs_assets.connectors.generations import Lineage, Point
from rs_assets.connectors.sink import BatchMark, LastWriter

# MySQL's default collation would treat names that differ in case as equal, and it indexes at most 768 characters.
_NAME = String(200).with_variant(VARCHAR(200, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")


@dataclass(frozen=True, slots=True)
class Ledger:
    """Three tables in one schema of a database.

    `rs_marks` has the last batch of each writer (a generation of a sink), and the token with which it was written;
    `rs_claims` the last start under a pipeline's name; `rs_returns` the batch after which a later generation began.
    """

    schema: str | None = None
    metadata: MetaData = field(default_factory=MetaData, compare=False, repr=False)
    marks: Table = field(init=False, compare=False, repr=False)
    claims: Table = field(init=False, compare=False, repr=False)
    returns: Table = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Describe the tables."""
        sink = ("pipeline_id", "sink")
        for name, columns in (
            ("marks", [*_keys(*sink), *_numbers("generation", key=True), *_numbers("batch", "token")]),
            ("claims", [*_keys("name"), *_numbers("claim"), *_texts("pipeline_id", "home")]),
            ("returns", [*_keys(*sink), *_numbers("begun", key=True), *_numbers("generation", "batch")]),
        ):
            table = Table(f"rs_{name}", self.metadata, *columns, schema=self.schema, **MYSQL_TABLE)
            object.__setattr__(self, name, table)

    def exists(self, connection: Connection) -> bool:
        """Whether the tables were made."""
        return inspect(connection).has_table(self.marks.name, schema=self.schema)

    def make(self, connection: Connection) -> None:
        """Make the tables that do not exist; outside of a transaction, which some databases would end."""
        try:
            self.metadata.create_all(connection)
            connection.commit()
        except SQLAlchemyError:
            # Another sink may have made them at this moment.
            connection.rollback()
            if not self.exists(connection):
                raise

    def hold(self, connection: Connection, mark: BatchMark) -> None:
        """Wait until no other start of the pipeline writes to the sink, and keep it so until the transaction ends."""
        name = self.claims.c.name == mark.claimed
        held = update(self.claims).where(name).values(claim=self.claims.c.claim)
        if connection.execute(held).rowcount == 0:
            try:
                with connection.begin_nested():
                    connection.execute(insert(self.claims).values(name=mark.claimed, claim=0, pipeline_id="", home=""))
            except IntegrityError:
                connection.execute(held)

    def last_writer(self, connection: Connection, mark: BatchMark) -> LastWriter:
        """The greatest token of the mark's pipeline and sink, and the last claim of its name."""
        tokens = connection.execute(self._of_sink(mark, self.marks.c.token)).scalars().all()
        of_name = select(self.claims).where(self.claims.c.name == mark.claimed)
        claimed = connection.execute(of_name).mappings().first()
        found: dict[str, Any] = {name: claimed[name] for name in ("claim", "pipeline_id", "home")} if claimed else {}
        return LastWriter(token=max(tokens, default=0), **found)

    def last_batch(self, connection: Connection, mark: BatchMark) -> int:
        """The last batch of the mark's writer, -1 for none."""
        return dict(self.points(connection, mark)).get(mark.generation, -1)

    def points(self, connection: Connection, mark: BatchMark) -> list[Point]:
        """The last batch of each generation of the mark's sink, the newest generation first; -1 is none."""
        found = connection.execute(self._of_sink(mark, self.marks.c.generation, self.marks.c.batch))
        return sorted((Point(*row) for row in found), reverse=True)

    def newest(self, connection: Connection, mark: BatchMark) -> list[Point]:
        """The points with the table's rows: the last batch, and those from which its generation began as they were."""
        table = self.returns
        of_sink = (table.c.pipeline_id == mark.pipeline_id) & (table.c.sink == mark.sink)
        found = connection.execute(select(table.c.begun, table.c.generation, table.c.batch).where(of_sink))
        lineage = Lineage({begun: Point(generation, batch) for begun, generation, batch in found})
        written = [point for point in self.points(connection, mark) if point.batch >= 0]
        return lineage.unchanged(written[0]) if written else []

    def note(self, connection: Connection, mark: BatchMark, batch: int) -> None:
        """Write the marker of a batch, or of none (-1), the token and the claim."""
        key = {"pipeline_id": mark.pipeline_id, "sink": mark.sink, "generation": mark.generation}
        known = next((p.batch for p in self.points(connection, mark) if p.generation == mark.generation), None)
        token = max(mark.token, self.last_writer(connection, mark).token)
        values = {"batch": max(batch, -1 if known is None else known), "token": token}
        connection.execute(_put(self.marks, key, values, known=known is not None))
        if mark.claim is not None:
            claim = {"claim": mark.claim.number, "pipeline_id": mark.pipeline_id, "home": mark.claim.home}
            connection.execute(_put(self.claims, {"name": mark.claimed}, claim, known=True))

    def note_return(self, connection: Connection, kept: BatchMark, begun: BatchMark) -> None:
        """Write that the generation of `begun` continues after `kept`."""
        key = {"pipeline_id": begun.pipeline_id, "sink": begun.sink, "begun": begun.generation}
        there = select(self.returns).filter_by(**key)
        known = connection.execute(there).first() is not None
        values = {"generation": kept.generation, "batch": kept.batch_id}
        connection.execute(_put(self.returns, key, values, known=known))

    def _of_sink(self, mark: BatchMark, *columns: Column[Any]) -> Any:
        of_sink = (self.marks.c.pipeline_id == mark.pipeline_id) & (self.marks.c.sink == mark.sink)
        return select(*columns).where(of_sink)


def _put(table: Table, key: dict[str, Any], values: dict[str, Any], *, known: bool) -> Insert | Update:
    if known:
        return update(table).filter_by(**key).values(**values)
    return insert(table).values(**key, **values)


def _keys(*names: str) -> Sequence[Column[Any]]:
    return [Column(name, _NAME, primary_key=True) for name in names]


def _texts(*names: str) -> Sequence[Column[Any]]:
    return [Column(name, String(1000), nullable=False) for name in names]


def _numbers(*names: str, key: bool = False) -> Sequence[Column[Any]]:
    return [Column(name, BigInteger, primary_key=key, autoincrement=False, nullable=False) for name in names]
