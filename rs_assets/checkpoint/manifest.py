"""The manifest of a job: its identity, in one small durable file next to Spark's checkpoints."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from rs_assets.common.files import write_atomically
from rs_assets.errors import CheckpointError

VERSION = 2
FILE = "manifest.json"
# How many versions of a pipeline are remembered: Spark's log has about the last hundred batches.
MOST_CODES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFacts:
    """The stored state of one query; `shape` describes the steps that made its state, as plain data.

    `generation` is that of its own checkpoint: a reset step is ahead of its pipeline. `query_id` is Spark's id of the
    checkpoint, `left` holds the offsets of removed sources, `origins` what each source reads or has read, `targets`
    where each sink writes or has written, `rules` the table of each Delta output and how its rows replace others there,
    `sinks` maps its sinks to their last batches, `rows_open` is the number of groups left in state (an idle run does
    not load it), `catalogued` the last batch in the catalog, `poisons` the records that are excluded from batches that
    failed on them. `path` lists the generations that lead to this one, oldest first, each with its last valid batch.
    `ruled` lists earlier `rules` that a person has allowed to change, oldest first, each with its last batch, and
    `shaped` the earlier steps of a `shape` whose state a person has allowed to keep. `codes`
    are digests of the pipeline versions that were started, each with its first batch, oldest first. `absent` has the
    generation in which each removed sink was last written.
    """

    generation: int
    stateful: str | None = None
    mode: str = "append"
    sinks: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    shape: tuple[Mapping[str, Any], ...] = ()
    query_id: str | None = None
    rows_open: int = 0
    catalogued: int = -1
    poisons: tuple[Mapping[str, Any], ...] = ()
    path: tuple[tuple[int, int], ...] = ()
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ruled: tuple[tuple[int, Mapping[str, tuple[str, ...]]], ...] = ()
    shaped: tuple[tuple[int, tuple[Mapping[str, Any], ...]], ...] = ()
    codes: tuple[tuple[int, str], ...] = ()
    absent: Mapping[str, int] = field(default_factory=dict)

    def without(self, sinks: Iterable[str]) -> Mapping[str, int]:
        """`absent` for a version of the pipeline that has just these sinks."""
        here = {*sinks}
        known = {**self.absent, **dict.fromkeys(self.sinks, self.generation)}
        return {sink: generation for sink, generation in known.items() if sink not in here}

    def as_of(self, batch: int) -> QueryFacts:
        """This state with the rules of the outputs, the steps, and the code, at the end of an earlier batch."""
        rules = next((rules for last, rules in self.ruled if last >= batch), {})
        return replace(
            self,
            rules={**self.rules, **rules},
            ruled=tuple(each for each in self.ruled if each[0] < batch),
            shape=next((shape for last, shape in self.shaped if last >= batch), self.shape),
            shaped=tuple(each for each in self.shaped if each[0] < batch),
            # One that was to compute the next batch has to be decided for again.
            codes=tuple(each for each in self.codes if each[0] <= batch),
        )

    def started_with(self, code: str, batch: int) -> QueryFacts:
        """This state when the version `code` computes `batch` and those after it."""
        before = tuple(known for known in self.codes if known[0] < batch)
        begun = () if before and before[-1][1] == code else ((batch, code),)
        return replace(self, codes=(*before, *begun)[-MOST_CODES:])

    def code_of(self, batch: int) -> str | None:
        """The digest of the pipeline version that computed a batch; None if it is not known."""
        return next((code for first, code in reversed(self.codes) if first <= batch), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The stored state of a job between runs.

    `pipeline_id` marks the commits of sinks; `generation` counts new checkpoints; `sealed` says that the input ended;
    `schemas` pins inferred schemas (JSON); `inputs` holds the size of each whole file that was read, by source.
    `partitions` is the number of state partitions, 0 before the first start: Spark's named offset log does not keep it,
    and would load the wrong state with another number; `rescaling` is the number it is being changed to. `aliases` maps
    renamed sources and sinks to their names in the checkpoint; `queries` holds the queries by folder name, and
    `removed` those whose step with state is gone: their checkpoints are still there, and it may come back. `places` is
    the location of each durable shuffle, by the stored name of the step that writes it: the name of a topic, or the
    folder of a table, which begins with the stored name of its query. `token` is the greatest fencing token that was
    taken, `claims` has for each sink the claims of this home that it may have stored. `code` is a digest of the
    pipeline version that computed the last batch with rows. `python` is the version of Python of the last start, by
    which digests of functions differ; "" in manifests of earlier releases.
    """

    pipeline_id: str
    generation: int = 1
    sealed: bool = False
    partitions: int = 0
    rescaling: int = 0
    schemas: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    queries: Mapping[str, QueryFacts] = field(default_factory=dict)
    removed: Mapping[str, QueryFacts] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    token: int = 0
    claims: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    code: str = ""
    python: str = ""

    @classmethod
    def new(cls) -> Manifest:
        """A first generation with a new id."""
        return cls(pipeline_id=uuid.uuid4().hex)

    @property
    def last_generation(self) -> int:
        """The greatest generation that any query has used."""
        return max((self.generation, *(facts.generation for facts in (*self.queries.values(), *self.removed.values()))))

    def next_generation(self, *, above: int = 0) -> Manifest:
        """The manifest of a new checkpoint, in a generation greater than `above`; pinned schemas are dropped."""
        generation = max(self.last_generation, above) + 1
        return Manifest(pipeline_id=self.pipeline_id, generation=generation, token=self.token, claims=self.claims)

    def place(self, job: Path, query: str) -> Path:
        """The folder of the query stored under this name, inside the folder of the job."""
        return job / generation_folder(self.queries[query].generation) / query

    def stored_name(self, step: str) -> str:
        """The name of the source or sink `step` in checkpoints and sinks."""
        return self.aliases.get(step, step)

    def inputs_of(self, source: str) -> Mapping[str, int]:
        """What is known of the input of a source; a renamed one is stored under its former name."""
        return self.inputs.get(source) or self.inputs.get(self.stored_name(source), {})

    def schema_of(self, source: str) -> str | None:
        """The inferred schema of a source, as JSON; a renamed one is stored under its former name."""
        return self.schemas.get(source) or self.schemas.get(self.stored_name(source))

    def with_query(self, folder: str, facts: QueryFacts) -> Manifest:
        """This manifest with another state of one query."""
        return replace(self, queries={**self.queries, folder: facts})

    def body(self) -> dict[str, Any]:
        """Everything as plain data."""
        return asdict(self)

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Manifest:
        """The manifest described by `body`; TypeError or KeyError if that is invalid."""
        queries = {folder: _facts(facts) for folder, facts in body["queries"].items()}
        removed = {folder: _facts(facts) for folder, facts in body.get("removed", {}).items()}
        claims = {sink: tuple(known) for sink, known in body.get("claims", {}).items()}
        return cls(**{**body, "queries": queries, "removed": removed, "claims": claims})


def _facts(body: Mapping[str, Any]) -> QueryFacts:
    return QueryFacts(
        **{
            **body,
            "sources": tuple(body["sources"]),
            "shape": tuple(body["shape"]),
            "poisons": tuple(body.get("poisons", ())),
            "origins": {name: tuple(of) for name, of in body.get("origins", {}).items()},
            "rules": _rules(body.get("rules", {})),
            "ruled": tuple((last, _rules(rules)) for last, rules in body.get("ruled", ())),
            "shaped": tuple((last, tuple(shape)) for last, shape in body.get("shaped", ())),
            "path": tuple((generation, batch) for generation, batch in body.get("path", ())),
            "codes": tuple((batch, code) for batch, code in body.get("codes", ())),
        }
    )


def _rules(stored: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(rule) for name, rule in stored.items()}


def generation_folder(generation: int) -> str:
    """The name of a generation's folder in a job's folder.

    >>> generation_folder(3)
    'g0003'
    """
    return f"g{generation:04d}"


def exists(folder: Path) -> bool:
    """Whether there is a manifest in `folder`, of a job that was started before."""
    return (folder / FILE).exists()


def load(folder: Path) -> Manifest | None:
    """The manifest in `folder`, None if there is none; CheckpointError if it is damaged or of another version."""
    if not exists(folder):
        return None
    path = folder / FILE
    try:
        stored: dict[str, Any] = orjson.loads(path.read_bytes())
        body = stored["manifest"]
        sound = stored["sha256"] == _digest(body)
        version = stored["version"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise _damaged(path) from error
    if version != VERSION:
        raise CheckpointError(
            f"the manifest has version {version}, this release reads {VERSION}",
            remedy="run it with the release that wrote it",
            file=path,
        )
    if not sound:
        raise _damaged(path)
    try:
        return Manifest.from_body(body)
    except (TypeError, KeyError, AttributeError) as error:
        raise _damaged(path) from error


def save(folder: Path, manifest: Manifest) -> None:
    """Write the manifest atomically: a crash leaves the old or the new one."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    body = manifest.body()
    data = orjson.dumps({"version": VERSION, "sha256": _digest(body), "manifest": body}, option=orjson.OPT_INDENT_2)
    write_atomically(folder / FILE, data)


def _digest(body: object) -> str:
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _damaged(path: Path) -> CheckpointError:
    return CheckpointError(
        "the manifest is damaged",
        remedy="restore the file from a copy; only it says what the sinks have committed",
        file=path,
    )
