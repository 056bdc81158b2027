"""The topics of a pipeline against what it has read: before a run, and before each commit of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta

from pipelines.compile.readers import kafka_range
from pipelines.runtime.inputs import AGAIN as BEGIN_ANEW
from pipelines.runtime.inputs import ENDED
from pipelines.topology.source import KafkaSource
from resources.checkpoint.log import CheckpointLog
from resources.errors import DataLossError, SealedError, SourceReadError
from resources.kafka.admin import Admin, Topic, connected, partitions_of
from resources.source.kafka.losses import Loss, listed, losses
from resources.source.kafka.offsets import Offsets, dump_offsets, initial_offsets, parse_offsets

# A topic and its id, as the manifest keeps them among the inputs of a source, with the number of partitions.
SEPARATOR = "="
# A broker that is away does not stop a batch: Spark waits for it, and the next look finds what changed.
PATIENCE = timedelta(seconds=2)

CONTINUE = "set on_data_loss='continue' to go on with what is left, or begin a new generation (--new-generation)"
AGAIN = "start again: it goes on with the topic as it is now"

Known = Mapping[str, int]


def facts_of(topics: Mapping[str, Topic]) -> dict[str, int]:
    """What the manifest keeps of topics: name and id, and the number of partitions.

    >>> facts_of({"orders": Topic("orders", "b1d8", (0, 1))})
    {'orders=b1d8': 2}
    """
    return {f"{topic.name}{SEPARATOR}{topic.id}": len(topic.partitions) for topic in topics.values()}


def ids_of(known: Known) -> dict[str, str]:
    """Topic ids by name, from what the manifest keeps.

    >>> ids_of({"orders=b1d8": 2})
    {'orders': 'b1d8'}
    """
    return dict(key.split(SEPARATOR, 1) for key in known if SEPARATOR in key)


def check_topics(
    source: KafkaSource, known: Known, log: CheckpointLog, *, sealed: bool = False
) -> tuple[dict[str, int], list[Loss]]:
    """Look at the topics of `source` before a run: what the manifest shall keep of them, and what was lost.

    DataLossError for losses under the policy "fail". Under "continue" the log is changed so that reading goes on
    behind what is gone; with a batch planned that is left to the run, which notes the loss when it commits.
    SealedError if there is more behind the end of a `sealed` generation, SourceReadError if no broker answers or a
    topic is not there.
    """
    with connected(source.cluster) as admin:
        topics = admin.topics(source.topics, source.pattern)
        read = _read(source, log)
        gone = {topic for topic, _ in read} - set(topics)
        _refuse_missing(source, set(source.topics) - set(topics) - gone, known)
        found = losses(admin, topics=topics, ids=ids_of(known), read=read)
        there = partitions_of(topics)
        first = admin.earliest(there) if sealed else {}
        ends = admin.latest(there, read_committed=source.read_committed) if sealed else {}
    if found and source.on_data_loss == "fail":
        raise _data_loss(source, found)
    if any(end > read.get(partition, first[partition]) for partition, end in ends.items()):
        raise SealedError(ENDED, remedy=BEGIN_ANEW, source=source.name)
    return facts_of(topics), _go_on(source, log, read, found) if found else found


def _read(source: KafkaSource, log: CheckpointLog) -> Offsets:
    """Where the next batch begins, as Spark knows it; empty before the first start."""
    last = log.offsets(log.last_committed())
    text = last.sources.get(source.name, "-") if last else "-"
    return (
        initial_offsets(log.folder, log.aliases.get(source.name, source.name)) if text == "-" else parse_offsets(text)
    )


def _refuse_missing(source: KafkaSource, missing: AbstractSet[str], known: Known) -> None:
    """A topic that was there once and is named still may be waited for, if what was in it may be lost."""
    waited = set(ids_of(known)) if source.on_data_loss == "continue" else set()
    for name in sorted(missing - waited):
        raise SourceReadError(f"there is no topic {name!r}", remedy="make it, or correct its name", step=source.name)


def _go_on(source: KafkaSource, log: CheckpointLog, read: Offsets, found: list[Loss]) -> list[Loss]:
    """Change the log so that the next batch begins behind what was lost; what is to be noted of it."""
    if log.last_committed() < 0 or log.offsets(log.last_committed() + 1) is not None:
        if any(loss.resume is not None for loss in found):
            # Its end is an offset of the topic that is gone: neither side of the cut can be told from the other.
            remedy = "begin a new generation (--new-generation): a batch was being computed"
            raise _data_loss(source, found, remedy=remedy)
        return []
    lost = {(loss.topic, loss.partition): loss for loss in found}
    kept = {p: offset for p, offset in read.items() if p not in lost}
    moved = {p: loss.resume if loss.resume is not None else loss.end for p, loss in lost.items()}
    # A partition that is gone has neither; should it come again, it is read from its first record.
    log.go_on_at(source.name, dump_offsets({**kept, **{p: to for p, to in moved.items() if to is not None}}))
    return found


def _data_loss(source: KafkaSource, found: Sequence[Loss], remedy: str = CONTINUE) -> DataLossError:
    return DataLossError(
        "records of Kafka are gone that were not read", remedy=remedy, source=source.name, range=listed(found)
    )


@dataclass(slots=True)
class TopicWatch:
    """Looks at the topics of one query's sources while it runs.

    `note` is told of what was lost under the policy "continue"; a range is told of once.
    """

    sources: Sequence[KafkaSource]
    known: Mapping[str, Known]
    log: CheckpointLog
    note: Callable[[str, Sequence[Loss]], None]
    _stack: ExitStack = field(default_factory=ExitStack)
    _admins: dict[str, Admin] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def check(self, batch_id: int) -> None:
        """Before the commit of a batch; DataLossError if a topic was made again, or records are gone under "fail".

        Each batch looks, at 5 ms: what one did not look at could hold records of a topic made again meanwhile, from
        where the old one was read to.
        """
        for source in self.sources:
            try:
                found = self._found(source, batch_id)
            except SourceReadError:
                self.close()
                return
            self._judge(source, found)

    def explain(self, batch_id: int) -> DataLossError | None:
        """Why Spark could not read a batch, if it is for lost records."""
        for source in self.sources:
            try:
                found = self._found(source, batch_id)
            except SourceReadError:
                self.close()
                continue
            if found:
                return _data_loss(source, found)
        return None

    def close(self) -> None:
        """Give the connections back; the next look makes new ones."""
        self._admins.clear()
        self._stack.close()

    def _found(self, source: KafkaSource, batch_id: int) -> list[Loss]:
        admin = self._admins.get(source.name)
        if admin is None:
            admin = self._stack.enter_context(connected(source.cluster, patience=PATIENCE))
            self._admins[source.name] = admin
        start, _ = kafka_range(source, self.log, batch_id)
        return admin.answered(
            lambda: losses(
                admin,
                topics=admin.topics(source.topics, source.pattern),
                ids=ids_of(self.known.get(source.name, {})),
                read={partition: offset for partition, offset in start.items() if offset >= 0},
            )
        )

    def _judge(self, source: KafkaSource, found: Sequence[Loss]) -> None:
        fatal = [loss for loss in found if source.on_data_loss == "fail" or loss.resume is not None]
        if fatal:
            remedy = CONTINUE if source.on_data_loss == "fail" else AGAIN
            raise _data_loss(source, fatal, remedy)
        fresh = [loss for loss in found if str(loss) not in self._told]
        self._told |= {str(loss) for loss in fresh}
        if fresh:
            self.note(source.name, fresh)
