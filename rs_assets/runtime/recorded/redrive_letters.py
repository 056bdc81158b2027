"""Dead letters and their records: which of them can be redriven, and which records the current code accepts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rs_assets.common.node import Node
from rs_assets.compile.source import POISON
from rs_assets.connectors.dead_letters import REDRIVING, STORED
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.nodes import Source
from rs_assets.connectors.redrives import KEY, NOWHERE, Letter
from rs_assets.runtime.recorded.read_again import NO_TEXT, Place, ReadAgain, Texts
from rs_assets.runtime.recorded.recompute import union
from rs_assets.runtime.recorded.recorded import RecordedQuery
from rs_assets.runtime.recorded.where import asked, condition
from rs_assets.runtime.upkeep.returns import names_of
from rs_assets.topology.nodes.step import ForEach
from rs_assets.topology.topology import Topology

# Why dead letters are left as they are.
NO_PLACE: Final = "a row of a window, or one that a system refused: it has no place in a source"
PARTLY: Final = "other rows of its record may be in the output"
OLDER: Final = "an earlier release wrote it, and did not note whether rows of its record are in the output"
ELSEWHERE: Final = "its query, or the step that refused it, is not in the pipeline any more"
SEVERAL: Final = "several sources lead to the step that refused it"
RUNNING: Final = "its batch is not committed yet"
FORGOTTEN: Final = "its batch is no longer recorded"
RECOMPUTED: Final = "its batch was computed again by other code, which may have accepted it"
GONE: Final = "the input of its batch is gone"
UNKNOWN: Final = "its place does not lead to its record alone"
CHANGED: Final = "its record is not in its place any more: its input, or the fields of its source, have changed"
UNCALLED: Final = "a function of for_each has refused it, which a redrive does not call"
CLAIMED: Final = "another redrive has begun with it"
# The columns of dead letters that a condition may name.
ASKED: Final = (*KEY, "reason", "record", "at", "tries")
NUMBER: Final = "_rs_number"


def chosen(spark: SparkSession, letters: Sequence[Letter], where: str | None) -> Sequence[Letter]:
    """Those of `letters` for which the condition `where` holds; ConfigurationError if it is wrong, or fails for one."""
    if where is None or not letters:
        return letters
    schema = pa.schema([*(STORED.field(name) for name in ASKED), (NUMBER, pa.int64())])
    rows = [{**{name: letter[name] for name in ASKED}, NUMBER: n} for n, letter in enumerate(letters)]
    given = spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema))
    with asked(where, ASKED, "a dead letter"):
        found = given.filter(condition(where)).select(NUMBER).collect()
    return [letters[row[NUMBER]] for row in found]


def source_of(topology: Topology, letter: Letter) -> tuple[str, str]:
    """The source of a dead letter's record, and why the dead letter is left as it is; one of both is empty."""
    # The first line of a log may be 0.
    if not letter["split"] or letter["line"] is None:
        return "", NO_PLACE
    if letter["source"]:
        source = _now(topology, letter["source"])
        return (source, "") if source in {node.name for node in topology.sources} else ("", ELSEWHERE)
    step = _now(topology, letter["step"].removesuffix(POISON))
    if step not in {node.name for node in topology}:
        return "", ELSEWHERE
    above = (node.name for node in topology.sources if node.name == step or node.name in topology.ancestors(step))
    sources = tuple(above)
    return (sources[0], "") if len(sources) == 1 else ("", SEVERAL)


def _now(topology: Topology, step: str) -> str:
    """The name that a step has now."""
    return dict(topology.renamed).get(step, step)


def place_of(letter: Letter) -> Place:
    """Where the record of a dead letter was read."""
    line, offset = (NOWHERE if letter[name] is None else letter[name] for name in ("line", "offset"))
    return Place(letter["batch_id"], letter["split"], line, offset)


def _not_at(found: Texts, letters: Sequence[Letter]) -> str:
    """Why the records that were found at a place are not those of its dead letters; empty if they are."""
    if found == Texts.of([letter["record"] for letter in letters]):
        return ""
    return CHANGED if found.number in {0, len(letters)} else UNKNOWN


@dataclass(frozen=True)
class Judged:
    """Dead letters whose records the current code accepts, those that it still refuses, with new reasons, and others.

    `places` are those of the records that it accepts, by source; `left` counts the others by the reason why they are
    left as they are.
    """

    good: list[Letter] = field(default_factory=list)
    refused: list[Letter] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[Place]] = field(default_factory=dict)


@dataclass(frozen=True)
class LettersAgain:
    """The dead letters of one output, on the driver's thread."""

    spark: SparkSession
    query: RecordedQuery
    sink: DeltaSink

    def judged(self, letters: Mapping[str, Sequence[Letter]]) -> Judged:
        """What the current code says about `letters`, which are given by the source of their records."""
        made = Judged()
        for source, some in letters.items():
            ready = defaultdict[Place, list[Letter]](list)
            for letter in some:
                why = self._left_because(letter)
                if why:
                    made.left[why] += 1
                else:
                    ready[place_of(letter)].append(letter)
            if ready:
                self._judge(source, ready, made)
        return made

    def rows(self, judged: Judged, folder: Path) -> DataFrame:
        """The rows of the records that are accepted."""
        sources = [source for source, places in judged.places.items() if places]
        return union([self._again(source).rows(judged.places[source], folder / source) for source in sources])

    def _judge(self, source: str, ready: Mapping[Place, Sequence[Letter]], made: Judged) -> None:
        again = self._again(source)
        found, gone = again.found(list(ready))
        sure = list[Place]()
        for place, letters in ready.items():
            why = GONE if place.batch in gone else _not_at(found.get(place, NO_TEXT), letters)
            if why:
                made.left[why] += len(letters)
            else:
                sure.append(place)
        refused = again.refused(sure) if sure else {}
        for place in sure:
            if place in refused:
                made.refused.extend({**letter, "reason": refused[place]} for letter in ready[place])
            else:
                made.good.extend(ready[place])
        made.places[source] = [place for place in sure if place not in refused]

    def _again(self, source: str) -> ReadAgain:
        node = self._topology[source]
        assert isinstance(node, Source)  # dead letters are given by source
        return ReadAgain(self.spark, self.query, node, self.sink)

    @property
    def _topology(self) -> Topology:
        return self.query.recorded.session.topology

    def _left_because(self, letter: Letter) -> str:
        """Why a dead letter is left as it is; empty if its record is read again."""
        facts, batch = self.query.recorded.session.facts(self.query.plan), letter["batch_id"]
        checks: tuple[tuple[Any, str], ...] = (
            (letter["query"] in self._names, ELSEWHERE),
            (letter[REDRIVING] is None, CLAIMED),
            (letter["whole"] is not None and letter["code"] is not None, OLDER),
            (letter["whole"], PARTLY),
            (not isinstance(self._step(letter), ForEach), UNCALLED),
            (batch <= self.query.log.last_committed(), RUNNING),
            (batch in self._recorded, FORGOTTEN),
            (letter["code"] == facts.code_of(batch), RECOMPUTED),
        )
        return next((why for holds, why in checks if not holds), "")

    def _step(self, letter: Letter) -> Node | None:
        """The step that refused a dead letter, as it is now."""
        topology = self.query.recorded.session.topology
        step = _now(topology, letter["step"].removesuffix(POISON))
        return next((node for node in topology if node.name == step), None)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        session = self.query.recorded.session
        return names_of(session.topology, self.query.plan, session.folders[self.query.plan.name])

    @cached_property
    def _recorded(self) -> frozenset[int]:
        return frozenset(self.query.batches(older=self.query.recalls))
