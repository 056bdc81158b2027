"""The manifest of a job: its identity beside Spark's checkpoints, in one small durable file."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from resources.errors import CheckpointError

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What survives a run.

    `pipeline_id` marks what sinks have committed; `generation` counts checkpoints begun afresh; `sealed` says that the
    input ended; `state_shape` is what the state was made with; `schemas` pins inferred schemas (JSON); `inputs` holds
    the size of each whole file that was read, by source. `partitions` is the number of state partitions, 0 before the
    first start: Spark's named offset log does not keep it, and would load the wrong state with another number.
    `rows_open` is how many groups each query had in state when the last run ended: an idle run does not load it.
    """

    pipeline_id: str
    generation: int = 1
    sealed: bool = False
    partitions: int = 0
    state_shape: tuple[str, ...] = ()
    schemas: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    rows_open: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def new(cls) -> Manifest:
        """A first generation with an id of its own."""
        return cls(pipeline_id=uuid.uuid4().hex)

    def next_generation(self) -> Manifest:
        """The manifest of a fresh checkpoint of the same pipeline; pinned schemas go."""
        return Manifest(pipeline_id=self.pipeline_id, generation=self.generation + 1)


def load(folder: Path) -> Manifest | None:
    """The manifest in `folder`, None if there is none; CheckpointError if it is damaged or of another version."""
    path = folder / "manifest.json"
    if not path.exists():
        return None
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
    return Manifest(**{**body, "state_shape": tuple(body["state_shape"])})


def save(folder: Path, manifest: Manifest) -> None:
    """Write the manifest so that a crash leaves the old or the new one, never a half."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    body = asdict(manifest)
    data = orjson.dumps({"version": VERSION, "sha256": _digest(body), "manifest": body}, option=orjson.OPT_INDENT_2)
    temporary = folder / ".manifest.json.tmp"
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / "manifest.json")


def _digest(body: object) -> str:
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _damaged(path: Path) -> CheckpointError:
    return CheckpointError(
        "the manifest is damaged",
        remedy="restore the file from a copy; without it nobody knows what the sinks have committed",
        file=path,
    )
