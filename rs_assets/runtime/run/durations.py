"""Which part of a batch takes most of its time, as Spark and the sinks measure it; in a small file for `lag`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import orjson

from rs_assets.common.files import write_atomically
from rs_assets.runtime.job.session import JobSession

EVERY: Final = timedelta(seconds=10)
FILE: Final = "durations.json"
NOT_KNOWN: Final = "the part that takes most of a batch is not shown with the lag"
# What Spark says in a report of a trigger: of a batch, of all of it, and of the look at the sources.
COMPUTED, WHOLE, LOOKED = "addBatch", "triggerExecution", "latestOffset"
# Of an operator with state: milliseconds, as sums over its tasks.
STATE_MS: Final = ("allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs")
REST, SOURCES, PLANNING = "reading, and steps without state", "asking the sources", "planning"


@dataclass(frozen=True, slots=True)
class Limit:
    """The part of a batch that takes most of its time, and its share of it, from 0 to 1."""

    part: str
    share: float

    def __str__(self) -> str:
        """In words.

        >>> print(Limit("state of 'minutes'", 0.714))
        71 % of a batch: state of 'minutes'
        """
        return f"{self.share:.0%}".replace("%", " %") + f" of a batch: {self.part}"


def parts_of(
    progress: Mapping[str, Any], states: Sequence[str], sinks: Mapping[str, float], slots: int
) -> dict[str, float]:
    """The seconds of each part of a batch, by the report of its trigger; {} for one without a batch of input.

    Spark sums the times of state up over tasks, of which `slots` run at once. `sinks` has the seconds of each commit.

    >>> took = {"triggerExecution": 1000, "addBatch": 900, "latestOffset": 20}
    >>> state = {"allUpdatesTimeMs": 900, "allRemovalsTimeMs": 0, "commitTimeMs": 300, "numShufflePartitions": 4}
    >>> progress = {"numInputRows": 9, "durationMs": took, "stateOperators": [state]}
    >>> {part: round(seconds, 3) for part, seconds in parts_of(progress, ["minutes"], {"hits": 0.1}, 2).items()}
    {'asking the sources': 0.02, 'planning': 0.08, "sink 'hits'": 0.1, "state of 'minutes'": 0.6, 'reading, ...': 0.2}
    """
    took = {name: ms / 1000 for name, ms in progress["durationMs"].items()}
    if not progress["numInputRows"] or COMPUTED not in took:
        return {}
    computed, looked = took[COMPUTED], took.get(LOOKED, 0.0)
    parts = {SOURCES: looked, PLANNING: max(took.get(WHOLE, computed) - computed - looked, 0.0)}
    parts |= {f"sink {name!r}": seconds for name, seconds in sinks.items()}
    for name, operator in zip(_names(states, len(progress["stateOperators"])), progress["stateOperators"], strict=True):
        at_once = max(min(slots, operator["numShufflePartitions"]), 1)
        seconds = sum(operator.get(each, 0) for each in STATE_MS) / 1000 / at_once
        parts[f"state of {name}"] = parts.get(f"state of {name}", 0.0) + seconds
    inside = sum(parts.values()) - parts[SOURCES] - parts[PLANNING]
    return {**parts, REST: max(computed - inside, 0.0)}


def _names(states: Sequence[str], operators: int) -> Sequence[str]:
    """The step of each of Spark's operators, which come in the order of their inputs, the last step first.

    All steps for each, if a step has more than one operator.
    """
    if len(states) == operators:
        return [repr(name) for name in reversed(states)]
    return [" and ".join(map(repr, states))] * operators


def note_durations(session: JobSession) -> None:
    """Write the parts of the newest batch of each query into the folder of the job, if it had input."""

    def look(spark: Any) -> dict[str, dict[str, float]]:
        slots = spark.sparkContext.defaultParallelism
        found = {}
        for name, query in session.queries.items():
            progress = query.progress
            found[name] = {} if progress is None else parts_of(progress, query.plan.states, query.work.took, slots)
        return found

    path = session.folder / FILE
    found = {name: parts for name, parts in session.options.driver.call(look).items() if parts}
    if found:
        run_id = session.options.run_id
        write_atomically(path, orjson.dumps({"run": run_id, "parts": {**_read(path, run_id), **found}}), durable=False)


def limits_in(folder: Path, run_id: str) -> Mapping[str, Limit]:
    """What takes most of a batch of each query of a run, by its name; without those that are not known."""
    limits = {}
    for query, parts in _read(folder / FILE, run_id).items():
        part = max(parts, key=lambda name: parts[name])
        limits[query] = Limit(part, round(parts[part] / sum(parts.values()), 3))
    return limits


def _read(path: Path, run_id: str) -> Mapping[str, Mapping[str, float]]:
    """The parts of each query of a run; {} for another run, and before the first look."""
    try:
        content = orjson.loads(path.read_bytes())
        parts: dict[str, dict[str, float]] = content["parts"] if content["run"] == run_id else {}
        return {query: known for query, known in parts.items() if sum(known.values()) > 0}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
