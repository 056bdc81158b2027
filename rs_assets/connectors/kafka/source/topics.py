"""Compares the topics of a pipeline with what it has read, before a run and before each commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.connectors.kafka.client.admin import PATIENCE as START_PATIENCE
from rs_assets.connectors.kafka.client.admin import Admin, Topic, connected, partitions_of
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.source.losses import Loss, losses
from rs_assets.connectors.kafka.source.offsets import Offsets, dump_offsets, initial_offsets, parse_offsets, range_of
from rs_assets.connectors.source import BEGIN_ANEW, Known, Start, Watch, Watching, listed, sealed_error
from rs_assets.errors import DataLossError, RsError, SourceReadError

# A topic and its id, as the manifest stores them among the inputs of a source, with the number of partitions.
SEPARATOR = "="
# An unreachable broker does not stop a batch: Spark waits for it, and the next check finds what changed.
PATIENCE = timedelta(seconds=2)

CONTINUE = "set on_data_loss='continue' to go on with what is left, or begin a new generation (--new-generation)"
AGAIN = "start again: it goes on with the current topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The topics that a source reads; `group` is the consumer group whose committed offsets it begins at.

    `owned`: the topic of a durable shuffle, of which no record may be missing.
    """

    name: str
    cluster: KafkaCluster
    topics: tuple[str, ...]
    pattern: str | None = None
    on_data_loss: str = "fail"
    read_committed: bool = True
    group: str | None = None
    owned: bool = False

    @property
    def continues(self) -> bool:
        """Whether losses are reported instead of raised."""
        return self.on_data_loss == "continue"

    def lost(self, found: Sequence[Loss], remedy: str = "") -> DataLossError:
        """The error for these losses."""
        what = "rows of a durable shuffle" if self.owned else "records of Kafka"
        return DataLossError(
            f"{what} were lost before they were read",
            remedy=remedy or (BEGIN_ANEW if self.owned else CONTINUE),
            source=self.name,
            range=listed(found),
        )

    def check(self, start: Start) -> Known:
        """Check the topics for each query that reads them, as `check_topics` does."""
        known = start.known
        for log in start.logs:
            if self.owned and not start.known and not log.log.begun:
                # It is created when the query that writes it starts.
                continue
            known, lost = check_topics(self, start.known, log.log, sealed=start.sealed and not self.owned)
            if lost:
                start.note(lost)
        return known

    def watch(self, watching: Watching) -> TopicWatch:
        """The guard of these topics for one query."""
        return TopicWatch(
            sources=[self],
            known=lambda: {self.name: watching.known()},
            log=watching.log.log,
            keep=lambda _, facts: watching.keep(facts),
            note=lambda _, lost: watching.note(lost),
        )


def facts_of(topics: Mapping[str, Topic]) -> dict[str, int]:
    """The facts about topics for the manifest: name and id, and the number of partitions.

    >>> facts_of({"orders": Topic("orders", "b1d8", (0, 1))})
    {'orders=b1d8': 2}
    """
    return {f"{topic.name}{SEPARATOR}{topic.id}": len(topic.partitions) for topic in topics.values()}


def ids_of(known: Known) -> dict[str, str]:
    """Topic ids by name, from the facts in the manifest.

    >>> ids_of({"orders=b1d8": 2})
    {'orders': 'b1d8'}
    """
    return dict(key.split(SEPARATOR, 1) for key in known if SEPARATOR in key)


def check_topics(
    source: Watched, known: Known, log: CheckpointLog, *, sealed: bool = False
) -> tuple[dict[str, int], list[Loss]]:
    """Check the topics of `source` before a run: the facts for the manifest, and the losses.

    DataLossError for losses under the policy "fail". Under "continue" the log is changed so that reading goes on after
    the lost records; if a batch is planned the run does that, and reports the loss when it commits. SealedError if
    there is more after the end of a `sealed` generation, SourceReadError if no broker answers or a topic is missing.
    """
    with connected(source.cluster) as admin:
        topics = admin.topics(source.topics, source.pattern)
        read = _read(source, known, log) or _committed(source, admin, topics, log)
        gone = {topic for topic, _ in read} - set(topics)
        _refuse_missing(source, set(source.topics) - set(topics) - gone, known)
        found = losses(admin, topics=topics, ids=ids_of(known), read=read)
        there = partitions_of(topics)
        first = admin.earliest(there) if sealed else {}
        ends = admin.latest(there, read_committed=source.read_committed) if sealed else {}
    if found and not source.continues:
        raise source.lost(found)
    if any(end > read.get(partition, first[partition]) for partition, end in ends.items()):
        raise sealed_error(source.name)
    return facts_of(topics), _go_on(source, log, read, found) if found else found


def _read(source: Watched, known: Known, log: CheckpointLog) -> Offsets:
    """The start of the next batch, as Spark knows it; empty before the first start.

    A topic of ours must have every record from the first unread one.
    """
    last = log.offsets(log.last_committed())
    text = last.sources.get(source.name, "-") if last else "-"
    read = (
        initial_offsets(log.folder, log.aliases.get(source.name, source.name)) if text == "-" else parse_offsets(text)
    )
    ours = dict.fromkeys(_partitions(known), 0) if source.owned else {}
    return {**ours, **read}


def _committed(source: Watched, admin: Admin, topics: Mapping[str, Topic], log: CheckpointLog) -> Offsets:
    """The first start's offsets, if a consumer group gives them: records before them that are gone are lost too."""
    if source.group is None or log.begun:
        return {}
    there = set(partitions_of(topics))
    return {p: offset for p, offset in admin.group_offsets(source.group).items() if p in there}


def _partitions(known: Known) -> Iterable[tuple[str, int]]:
    return ((key.split(SEPARATOR, 1)[0], n) for key, count in known.items() for n in range(count))


def _refuse_missing(source: Watched, missing: AbstractSet[str], known: Known) -> None:
    """A topic that existed before and is still named may be waited for, if its records may be lost."""
    waited = set(ids_of(known)) if source.continues else set()
    for name in sorted(missing - waited):
        remedy = BEGIN_ANEW if source.owned else "create it, or correct its name"
        raise SourceReadError(f"there is no topic {name!r}", remedy=remedy, step=source.name)


def _go_on(source: Watched, log: CheckpointLog, read: Offsets, found: list[Loss]) -> list[Loss]:
    """Change the log so that the next batch begins after the lost records; returns the losses to report."""
    if not log.begun:
        # There is no log yet, and the first batch begins with the existing records.
        return found
    if log.last_committed() < 0 or log.offsets(log.last_committed() + 1) is not None:
        if any(loss.resume is not None for loss in found):
            # Its end is an offset of the deleted topic: old and new records cannot be distinguished.
            raise source.lost(found, "begin a new generation (--new-generation): a batch was being computed")
        return []
    lost = {(loss.topic, loss.partition): loss for loss in found}
    kept = {p: offset for p, offset in read.items() if p not in lost}
    moved = {p: loss.resume if loss.resume is not None else loss.end for p, loss in lost.items()}
    # A partition that is gone has neither; if it comes back, it is read from its first record.
    log.go_on_at(source.name, dump_offsets({**kept, **{p: to for p, to in moved.items() if to is not None}}))
    return found


@dataclass(slots=True)
class TopicWatch(Watch):
    """Checks the topics of one query's sources while it runs.

    `known` returns the manifest's facts about each source's topics; `keep` adds new ones. `note` receives the losses
    under the policy "continue"; each range is reported once. `before` is called with each planned batch.
    """

    sources: Sequence[Watched]
    known: Callable[[], Mapping[str, Known]]
    log: CheckpointLog
    keep: Callable[[str, Known], None]
    note: Callable[[str, Sequence[Loss]], None]
    before: Callable[[int], None] | None = None
    partitions: dict[str, int] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _admins: dict[str, Admin] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)

    @property
    def splits(self) -> int:
        """The number of known partitions."""
        return sum(self.partitions.values())

    def plans_again(self, failure: RsError) -> bool | None:
        """False: lost records cannot be read; the next start begins after them, or is refused."""
        return True if isinstance(failure, DataLossError) else None

    def begin(self) -> None:
        """Before the query runs: store the ids of topics of ours that were just created; SourceReadError."""
        for source in self.sources:
            if source.owned and not self._ids(source):
                with connected(source.cluster, patience=START_PATIENCE) as admin:
                    self._topics(admin, source)

    def planned(self, batch_id: int) -> None:
        """Call `before`."""
        if self.before is not None:
            self.before(batch_id)

    def check(self, batch_id: int) -> None:
        """Before the commit of a batch; DataLossError if a topic was created again, or records are gone under "fail".

        Every batch is checked, at 5 ms: an unchecked one could contain records of a topic that was created again
        meanwhile, from the offset reached in the old one. A topic that newly matches a pattern is known from then on.
        """
        for source in self.sources:
            try:
                found = self._found(source, batch_id)
            except SourceReadError:
                self.close()
                return
            self._judge(source, found)

    def explain(self, batch_id: int) -> DataLossError | None:
        """The error if Spark could not read a batch because of lost records."""
        for source in self.sources:
            try:
                found = self._found(source, batch_id)
            except SourceReadError:
                self.close()
                continue
            if found:
                return source.lost(found)
        return None

    def close(self) -> None:
        """Close the connections; the next check makes new ones."""
        self._admins.clear()
        self._stack.close()

    def _ids(self, source: Watched) -> dict[str, str]:
        return ids_of(self.known().get(source.name, {}))

    def _topics(self, admin: Admin, source: Watched) -> dict[str, Topic]:
        topics = admin.topics(source.topics, source.pattern)
        self.partitions[source.name] = len(partitions_of(topics))
        known = self._ids(source)
        fresh = {name: topic for name, topic in topics.items() if name not in known}
        if fresh:
            self.keep(source.name, facts_of(fresh))
        return topics

    def _found(self, source: Watched, batch_id: int) -> list[Loss]:
        admin = self._admins.get(source.name)
        if admin is None:
            admin = self._stack.enter_context(connected(source.cluster, patience=PATIENCE))
            self._admins[source.name] = admin
        start, _ = range_of(SourceLog(self.log, source.name).batch(batch_id))
        read = {partition: offset for partition, offset in start.items() if offset >= 0}

        def compared() -> list[Loss]:
            topics = self._topics(admin, source)
            return losses(admin, topics=topics, ids=self._ids(source), read=read)

        return admin.answered(compared)

    def _judge(self, source: Watched, found: Sequence[Loss]) -> None:
        fatal = [loss for loss in found if not source.continues or loss.resume is not None]
        if fatal:
            raise source.lost(fatal, AGAIN if source.continues else "")
        fresh = [loss for loss in found if str(loss) not in self._reported]
        self._reported |= {str(loss) for loss in fresh}
        if fresh:
            self.note(source.name, fresh)
