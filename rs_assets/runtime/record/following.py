"""Followers of the journal: sources are notified of offsets that Spark and the catalog have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.source import Followed, Follower, SourceReader
from rs_assets.errors import RsError
from rs_assets.runtime.record.journal import JournalEntry


@dataclass(slots=True)
class Following:
    """The followers of one effect, by source; `logs` are those of the queries that read it, by query."""

    effect: str
    followers: dict[str, Follower] = field(default_factory=dict)
    logs: dict[str, Mapping[str, SourceLog]] = field(default_factory=dict)
    _written: dict[str, int] = field(default_factory=dict)

    def follow(self, source: str, follower: Follower, logs: Mapping[str, CheckpointLog]) -> None:
        """Notify `follower` for `source`; batches committed before this run are in the catalog already."""
        self.followers[source] = follower
        self.logs[source] = {query: SourceLog(log, source) for query, log in logs.items()}
        self._written.update({query: log.last_committed() for query, log in logs.items()})

    def __call__(self, entries: Sequence[JournalEntry]) -> None:
        """Notify all of them, then raise the last RsError."""
        for entry in entries:
            self._written[entry.query] = max(entry.batch_id, self._written.get(entry.query, -1))
        ends = {q: self._written.get(q, -1) for logs in self.logs.values() for q in logs}
        self._each(lambda follower, logs: follower.committed([log.offset(ends[q]) for q, log in logs.items()]))

    def finish(self) -> None:
        """Notify all of them of the end of the run, then raise the last RsError."""
        self._each(lambda follower, logs: follower.finish([log.committed for log in logs.values()]))

    def _each(self, tell: Callable[[Follower, Mapping[str, SourceLog]], None]) -> None:
        failure: RsError | None = None
        for source, follower in self.followers.items():
            try:
                tell(follower, self.logs[source])
            except RsError as error:
                failure = error
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Release their resources."""
        for follower in self.followers.values():
            follower.close()


def followings(readers: Mapping[str, SourceReader], logs: Sequence[tuple[QueryPlan, CheckpointLog]]) -> list[Following]:
    """The followers of the sources that have one, grouped by the effect of their failures."""
    made: dict[str, Following] = {}
    for name, reader in readers.items():
        follower = reader.follower() if isinstance(reader, Followed) else None
        if follower is not None:
            following = made.setdefault(follower.effect, Following(follower.effect))
            following.follow(name, follower, {plan.name: log for plan, log in logs if name in plan.sources})
    return list(made.values())
