"""The dimensions of the steps of a run, and the version that each batch uses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rs_assets.common.background import BackgroundFailures
from rs_assets.common.plural import count_of
from rs_assets.compile.planner.context import HeldDimension
from rs_assets.errors import CheckpointError, SchemaError, SourceReadError
from rs_assets.expressions.rules.matched import note_rules
from rs_assets.expressions.rules.rule_set import forget, names_of, stored
from rs_assets.expressions.rules.spec import given_by
from rs_assets.operators.dimension.keys import Key, fields_of
from rs_assets.operators.dimension.notes import DimensionNotes, Versions, notes_of
from rs_assets.operators.dimension.range_faults import crossing, unusable
from rs_assets.operators.dimension.ranges import usable
from rs_assets.operators.dimension.versions import Version, VersionStore, shape_of
from rs_assets.topology.nodes.match import MatchRules
from rs_assets.topology.nodes.versioned import VersionedTable

MAY_BE_EMPTY = "correct it; if it may have no rows, declare that: may_be_empty=True"


@dataclass(slots=True, kw_only=True)
class RunDimension:
    """The dimension of one step of a run. `current` is the version for new batches.

    `job` is the folder of the job, whose notes list the versions that are still needed.
    """

    node: VersionedTable
    store: VersionStore
    failures: BackgroundFailures
    job: Path
    schema: StructType | None = None
    _current: Version | None = None
    _fields: Mapping[str, str | None] | None = None

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of the dimension."""
        return self.node.keys

    @property
    def shape(self) -> str:
        """The shape that versions must share to replace each other."""
        return shape_of(to_arrow_schema(self.held.schema, timezone="UTC"), self.keys)

    @property
    def current(self) -> Version:
        """The version for new batches."""
        assert self._current is not None  # loaded before queries are made
        return self._current

    @property
    def undeclared(self) -> bool:
        """Whether its schema was inferred by a load."""
        return self.node.dimension.schema is None

    @property
    def held(self) -> HeldDimension:
        """The dimension for the compiler."""
        assert self.schema is not None  # loaded before queries are made
        return HeldDimension(self.store.root, self.schema, self.prepare)

    def restored(self) -> Version | None:
        """Continue with the version of the previous run, and return it; None if there is no usable one."""
        self.store.sweep()
        self._current = self.store.newest(self.shape, self.node.dimension.text) if self.schema is not None else None
        return self._current

    def added(self, table: pa.Table, mark: str | None) -> Version:
        """Store `table` as a version that is not in use yet."""
        version = self.store.add(table, self.keys, origin=self.node.dimension.text, mark=mark)
        self._prepare(version)
        if isinstance(self.node, MatchRules):
            self._report_nameless(table.num_rows - usable(table, self.keys).num_rows)
        self._report_ranges(table)
        return version

    @property
    def in_code(self) -> bool:
        """Whether its rows are part of the code, and change with it alone."""
        return given_by(self.node.dimension)

    def of_code(self, table: pa.Table) -> Version:
        """The version of `table`, the rows of the current code, which recorded batches are computed with."""
        self.store, version = self.store.of_code(table, self.keys, origin=self.node.dimension.text)
        return version

    def prepare(self, fields: Mapping[str, str | None]) -> None:
        """Prepare the current version for a stream of these fields, and each later one before it is used.

        Recorded batches have none: each is judged by the version that was noted for it.
        """
        self._fields = fields
        if self._current is not None:
            self._prepare(self._current)

    def _prepare(self, version: Version) -> None:
        """Compile rules, and report those that are left out."""
        if self._fields is None or not isinstance(self.node, MatchRules):
            return
        rules = stored(self.store.root, version.name, self._fields, step=self.node.name)
        note_rules(self.store.root, names_of(self.store.root, version.name, rules))
        faults = rules.faults
        effect = f"rules of step {self.node.name!r} are left out"
        if not faults:
            self.failures.succeeded(effect)
            return
        first, why = next(iter(faults.items()))
        more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
        self.failures.failed(
            effect, SchemaError(f"rule {first!r}{more}: {why}", remedy=f"correct it in {self.node.dimension.text}")
        )

    def _report_nameless(self, rules: int) -> None:
        """A version has no row without a key."""
        effect = f"rules without a name of step {self.node.name!r} are left out"
        if not rules:
            self.failures.succeeded(effect)
            return
        remedy = f"give each a name in {self.node.dimension.text}"
        self.failures.failed(effect, SchemaError(f"{count_of(rules, 'rule')} without a name", remedy=remedy))

    def _report_ranges(self, table: pa.Table) -> None:
        """Networks and intervals that are left out, and intervals of which the narrower one is found."""
        of, where = f"of the dimension of step {self.node.name!r}", self.node.dimension.text
        bad, pair = unusable(table, self.keys), crossing(table, self.keys)
        crossed = f"{pair} overlap, and neither contains the other: the narrower one is found" if pair else None
        for effect, why in ((f"rows {of} are left out", bad), (f"intervals {of} overlap", crossed)):
            if why is None:
                self.failures.succeeded(effect)
            else:
                self.failures.failed(effect, SchemaError(why, remedy=f"correct them in {where}"))

    def use(self, version: Version, schema: StructType) -> None:
        """Use `version` for new batches."""
        self.schema, self._current = schema, version

    def check(self, table: pa.Table) -> None:
        """SchemaError if rows cannot be looked up by the keys, SourceReadError if there are no rows to look up."""
        step, text = self.node.name, self.node.dimension.text
        missing = [name for name in fields_of(self.keys) if name not in table.schema.names]
        if missing:
            raise SchemaError(
                f"the dimension of step {step!r} has no field {missing[0]!r} to look rows up by: {text}",
                remedy="name its fields in on=, or declare its schema: without rows it is unknown",
                step=step,
                fields=", ".join(table.schema.names),
            )
        if self.node.dimension.may_be_empty or usable(table, self.keys).num_rows:
            return
        none = "has no row with a key" if table.num_rows else "has no rows"
        raise SourceReadError(f"the dimension of step {step!r} {none}: {text}", remedy=MAY_BE_EMPTY, step=step)

    def prune(self) -> None:
        """Remove the versions that are needed neither by the next batch nor by one that may be computed again."""
        self.store.prune({self.current.name}.union(*(notes.named for notes in notes_of(self.job))))
        forget(self.store.root)


@dataclass(slots=True)
class BatchVersions:
    """The dimension versions of the batches of one query. `dimensions` are those of its lookup steps.

    `planned` returns the batches in Spark's log, once the query has begun.
    """

    notes: DimensionNotes
    dimensions: Mapping[str, RunDimension]
    pinning: threading.Lock
    planned: Callable[[], Sequence[int]] = tuple

    def ends_of(self, batch_id: int) -> Mapping[str, str]:
        """The ends of the sources in a batch that is computed again, by stored name; {} for a new batch.

        If all batches that are left to be computed again used the versions of new batches, they are treated as new from
        here on, and may read other input. Rules of the code do not count: those of the current code are used.
        """
        if batch_id > self.notes.again:
            return {}
        now = {step: each.current.name for step, each in self.dimensions.items() if not each.in_code}
        if all(self._loaded_in(each) == now for each in range(batch_id, self.notes.again + 1)):
            self.notes.end_repeating()
        return self.notes.plans.get(batch_id, {})

    def announce(self) -> None:
        """Record the versions with which the next batch would begin: it uses them if it is killed before it is pinned.

        For a start, and whenever versions were exchanged.
        """
        planned = self.planned() if self.dimensions else ()
        if planned:
            self._announce(planned[-1] + 1, first=planned[0])

    def _announce(self, batch_id: int, *, first: int) -> None:
        with self.pinning:
            now = {step: each.current.name for step, each in self.dimensions.items()}
            if batch_id <= self.notes.again:
                now = {**self.notes.of(batch_id), **{step: now[step] for step in now if self.dimensions[step].in_code}}
            if now != self.notes.of(batch_id):
                self.notes.note(batch_id, now, first=first)

    def pin(self, batch_id: int, *, planned_before: bool, first: Callable[[], int]) -> Versions:
        """The versions of a batch, recorded on disk before it is computed.

        A batch that was planned before the start may have reached some sinks: it uses the same versions again. So does
        a batch that is computed again after a rollback, except for rules of the code. `first` returns the first batch
        that the query can go back to. CheckpointError if such a version is gone.
        """
        if not self.dimensions:
            return {}
        known = self.notes.of(batch_id) if planned_before else self._loaded_in(batch_id)
        with self.pinning:
            versions = {step: self._kept(step, known.get(step), again=planned_before) for step in self.dimensions}
            if versions != self.notes.of(batch_id):
                self.notes.note(batch_id, versions, first=first())
        # The next batch may begin with later versions, or with those of other code than the last time.
        self._announce(batch_id + 1, first=first())
        return versions

    def _loaded_in(self, batch_id: int) -> Versions:
        """The versions of tables and files in a batch that is computed again; {} for a new batch."""
        noted = self.notes.of(batch_id) if batch_id <= self.notes.again else {}
        return {
            step: name for step, name in noted.items() if step in self.dimensions and not self.dimensions[step].in_code
        }

    def _kept(self, step: str, noted: str | None, *, again: bool) -> str:
        dimension = self.dimensions[step]
        found = dimension.store.named(noted) if noted is not None else None
        if found is not None and found.shape == dimension.shape:
            return found.name
        if noted is None:
            return dimension.current.name
        why, mend = ("gone", "put its folder back") if found is None else ("of other fields", "run as before once")
        if again:
            raise CheckpointError(
                f"version {noted} of the dimension of step {step!r}, which an interrupted batch used, is {why}",
                remedy=f"{mend}, or begin a new generation (--new-generation)",
                file=dimension.store.folder(noted),
            )
        dimension.failures.lost(
            f"dimension {step} {noted}",
            f"batches that are computed again look up newer rows in step {step!r}: version {noted}, which they used"
            f" before, is {why}",
        )
        return dimension.current.name
