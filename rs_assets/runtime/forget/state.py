"""The state of the steps of a pipeline, written again without the rows of some keys, by Spark.

As in a rescale the new state is that of a batch which reads no input. All other rows must be in it, by their number and
a sum of their hashes, and it must need no earlier file. When this holds for all queries, the files of earlier batches
go: no earlier state can be read any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from rs_assets.checkpoint.log import PARTITIONS
from rs_assets.common.node import Node
from rs_assets.common.plural import count_of
from rs_assets.errors import CheckpointError, ConfigurationError
from rs_assets.operators.join.stream_join import keys_of
from rs_assets.operators.state.exchange import name_as_on_disk, readable
from rs_assets.recovery.forgetting import complete_alone, earlier_files, remove_earlier
from rs_assets.recovery.rewinding import rewindable
from rs_assets.runtime.forget.report import Finding
from rs_assets.runtime.forget.world import Query, World
from rs_assets.runtime.translate import first_line
from rs_assets.runtime.upkeep.state import operator_of
from rs_assets.spark.processor.session import processors_in
from rs_assets.topology.nodes.join import StreamJoin
from rs_assets.topology.nodes.process import Process
from rs_assets.topology.nodes.table_reduce import TableReduce

AGAIN: Final = "forget the keys again"
# Steps whose timers are those of many keys together, without the keys.
BUCKETED: Final = (Process, TableReduce)
TIMERS: Final = "$"


class Family(NamedTuple):
    """A column family of the state of an operator.

    Whether its keys and its rows have such a field, and whether their types are known; how many rows have a value in
    their key, how many others in the row, how many neither, and the sum of the hashes of these.
    """

    operator: int
    store: str
    name: str
    in_keys: bool
    in_rows: bool
    known: bool
    keys: int
    rows: int
    others: int
    digest: str

    @property
    def has_field(self) -> bool:
        """Whether its keys or its rows have such a field."""
        return self.in_keys or self.in_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierBatches:
    """The batches of a query to which a rewind could go, which would read their records again."""

    query: Query
    place: str = "batches"

    @property
    def name(self) -> str:
        """That of the query."""
        return self.query.plan.name

    def check(self) -> None:
        """They can always be removed."""

    def found(self) -> Finding:
        """Those before the last one."""
        earlier = max(len(rewindable(self.query.folder / "checkpoint")) - 1, 0)
        return Finding(more=earlier, said=f"{earlier:,} earlier ones, to which a rewind could go" if earlier else "")

    def erase(self) -> None:
        """Remove their plans and their state."""
        remove_earlier(self.query.folder / "checkpoint", self.query.last)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryState:
    """The state of one query.

    `begun` is called with its checkpoint and the batch that it is written as, before that begins; `resumed` is the one
    that it was written as before an interruption, -1 for none.
    """

    world: World
    query: Query
    begun: Callable[[str, int], None]
    resumed: int = -1
    place: str = "state"

    @property
    def name(self) -> str:
        """Its steps."""
        return ", ".join(self.query.plan.states)

    def check(self) -> None:
        """CheckpointError and ConfigurationError for state that cannot be written again without the keys."""
        check_complete(self.world, self.query, resumed=self.resumed)
        families = self._families()
        for number, step in self._steps().items():
            mine = [family for family in families if family.operator == number]
            self._check_keys(step, mine)
            inside = sum(family.rows for family in mine)
            if inside:
                raise ConfigurationError(
                    f"the state of step {step!r} has {count_of(inside, 'row')} with a key that it keeps under"
                    " other keys, and a part of such state cannot be removed",
                    remedy=f"run the pipeline until they have left the state, then {AGAIN}; or remove the records at"
                    f" the source, begin a new generation (--new-generation), then {AGAIN}",
                    pipeline=self.world.topology.name,
                )

    def _check_keys(self, step: str, families: Sequence[Family]) -> None:
        """ConfigurationError if rows of the step may have the field as a key where it cannot be seen."""
        node = self.world.topology[step]
        keyed = [column for column in self.world.keys.at(step) if column in key_fields(node)]
        unseen = [each.name for each in families if not each.known or (keyed and each.others and not each.has_field)]
        unseen = [name for name in unseen if not (isinstance(node, BUCKETED) and name.startswith(TIMERS))]
        if unseen or (keyed and self.query.last >= 0 and not any(family.has_field for family in families)):
            field = keyed[0] if keyed else next(iter(self.world.keys.values))
            raise ConfigurationError(
                f"the state of step {step!r} has rows whose keys have no field {field!r}"
                + f": {', '.join(sorted(unseen))}" * bool(unseen),
                remedy=f"name the field as the state has it (rs-assets state shows it): {step}:COLUMN={field}; or begin"
                f" a new generation (--new-generation), then {AGAIN}",
                pipeline=self.world.topology.name,
            )

    def found(self) -> Finding:
        """Rows of state, and the files of earlier batches that may have some."""
        families = [family for family in self._families() if family.has_field]
        if not families:
            return Finding()
        rows = sum(family.keys + family.rows for family in families)
        checkpoint = self.query.folder / "checkpoint"
        files = earlier_files(checkpoint, self.query.last)
        more = sum(file.is_relative_to(checkpoint / "state") for file in files)
        said = f"{count_of(rows, 'row')}, {count_of(more, 'file')} of earlier state" if rows or more else ""
        return Finding(rows=rows, more=more, said=said)

    def prepare(self) -> None:
        """Write the state again without them, as one batch more; nothing is removed yet.

        State without such a field is written again, too: then no earlier file of it is needed. CheckpointError if Spark
        fails, or if the new state has not all other rows: the batch is to be taken away then.
        """
        log, last, driver = self.query.log, self.query.last, self.world.options.driver
        before = driver.call(self._read)
        self.begun(str((self.query.folder / "checkpoint").relative_to(self.world.job)), last + 1)
        written = log.begin_rewrite(log.partitions(last))
        driver.call(lambda spark: self._rewrite(spark, last, written))
        log.end_rewrite(written)
        after = driver.call(self._read)
        self._compare(before, after)

    def erase(self) -> None:
        """Remove the earlier state and the earlier plans."""
        remove_earlier(self.query.folder / "checkpoint", self.query.last)

    def _rewrite(self, spark: SparkSession, read: int, written: int) -> None:
        log = self.query.log
        spark.conf.set(PARTITIONS, log.partitions(read))
        place = readable(log.folder)
        try:
            self._call(spark).leaveOut(spark._jsparkSession, place, read, written, self._wanted())  # noqa: SLF001
            name_as_on_disk(log.folder, place)
        except Exception as error:
            raise CheckpointError(
                f"Spark could not write the state of {self.name} again: {first_line(str(error))}",
                remedy=f"nothing was removed; check the cause, then {AGAIN}",
                file=log.folder,
            ) from error

    def _compare(self, before: Sequence[Family], after: Sequence[Family]) -> None:
        """CheckpointError if the new state lacks rows, has others, or needs earlier files."""
        was, now = _rest(before), _rest(after)
        wrong = sorted(name for name in {*was, *now} if was.get(name) != now.get(name))
        problem = complete_alone(self.query.folder / "checkpoint", self.query.last)
        what = f"differs in {', '.join(wrong)}" if wrong else problem
        if any(family.keys or family.rows for family in after):
            what = "still has rows of the keys"
        if what:
            raise CheckpointError(
                f"the state of {self.name} that was written again {what}",
                remedy="nothing was removed: report this with the pipeline's describe()",
                file=self.query.log.folder,
            )

    def _families(self) -> Sequence[Family]:
        if self.query.last < 0:
            return ()
        return self.world.options.driver.call(self._read)

    def _read(self, spark: SparkSession) -> Sequence[Family]:
        log, last = self.query.log, self.query.last
        try:
            # Spark leaves it out in the first run of a query, which may go on.
            log.pin_partitions(self.world.manifest.partitions)
            place = readable(log.folder)
            lines = self._call(spark).found(spark._jsparkSession, place, last, self._wanted())  # noqa: SLF001
        except Exception as error:
            raise CheckpointError(
                f"the state of {self.name} cannot be read: {first_line(str(error))}",
                remedy="look for damage: rs-assets verify",
                file=log.folder,
            ) from error
        return [_family(str(line)) for line in lines]

    def _call(self, spark: SparkSession) -> Any:
        # Spark 4.2.0 initialises the reader only at the first access to its streams.
        _ = spark.streams.active
        return processors_in(spark).KeysInState

    def _steps(self) -> Mapping[int, str]:
        """The steps by the number of their operator."""
        plan, topology = self.query.plan, self.world.topology
        return {operator_of(topology, plan, step): step for step in plan.states}

    def _wanted(self) -> list[str]:
        return [text for number, step in self._steps().items() for text in self._of_step(number, step)]

    def _of_step(self, number: int, step: str) -> Iterator[str]:
        node, by_column = self.world.topology[step], self.world.keys.at(step)
        for column, texts in by_column.items():
            for stored in {column, *names_in_state(node, column)}:
                for text in texts:
                    yield from (str(number), stored, text)


def check_complete(world: World, query: Query, *, resumed: int = -1) -> None:
    """CheckpointError for a batch that is planned and not committed, and for batches that the catalog lacks."""
    last = query.last
    planned = query.log.offsets(last + 1) is not None and resumed != last + 1
    # Of a removal that was interrupted the catalog has no batch yet.
    lacking = resumed < 0 and world.manifest.queries[query.stored].catalogued < last
    if planned or lacking:
        what = f"batch {last + 1} is not complete" if planned else f"the catalog lacks its batches up to {last}"
        raise CheckpointError(
            f"the last run of {query.plan.name} was killed: {what}",
            remedy=f"run the pipeline once, which completes it: rs-assets run {world.topology.name}",
            file=query.folder,
        )


def key_fields(node: Node) -> frozenset[str]:
    """The fields by which a step keeps its state, as far as it names them."""
    named = (each for name in ("group_by", "keys", "groups", "fields", "on") for each in getattr(node, name, ()) or ())
    # Pairs of a left and a right field in joins.
    return frozenset(field for each in named for field in ((each,) if isinstance(each, str) else each))


def names_in_state(node: Node, field: str) -> list[str]:
    """The names of a field in the keys of a step's state, where they differ: those of Spark's joins are numbers."""
    if not isinstance(node, StreamJoin) or node.variable is not None:
        return []
    left = {one for one, other in node.on if field in (one, other)}
    return [f"field{place}" for place, name in enumerate(keys_of(node.on, node.bound)) if name in left]


def _family(line: str) -> Family:
    operator, store, name, in_keys, in_rows, known, keys, rows, others, digest = line.split("\t")
    in_key, in_row, seen = (text == "true" for text in (in_keys, in_rows, known))
    return Family(int(operator), store, name, in_key, in_row, seen, int(keys), int(rows), int(others), digest)


def _rest(families: Sequence[Family]) -> dict[str, tuple[int, str]]:
    """The rows without a value: their number and the sum of their hashes, by family."""
    return {f"{each.operator}/{each.store}/{each.name}": (each.others, each.digest) for each in families if each.others}
