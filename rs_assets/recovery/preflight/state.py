"""Checks that the state for the next batch can be loaded, in every partition of every store (finding `state`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rs_assets.checkpoint.log import PARTITIONS
from rs_assets.common.plural import count_of
from rs_assets.recovery.preflight.facts import Facts, Read, read
from rs_assets.recovery.preflight.files import file_names, file_numbers, folder_numbers, gaps
from rs_assets.recovery.preflight.finding import Finding, Severity
from rs_assets.recovery.preflight.parse import Damaged, json_object
from rs_assets.recovery.preflight.snapshot import changes_problem, snapshot_problem

DEFAULT_STORE = "default"
REMEDY = "restore the state from a copy of the checkpoint, or start over with --new-generation"
_FILE = re.compile(r"([1-9][0-9]{0,17})(?:_[0-9A-Za-z-]+)?\.(zip|snapshot|changelog|delta)")
_STORE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True, slots=True)
class Operator:
    """The metadata of a stateful operator: its name and the partitions of each store."""

    name: str
    stores: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Versions:
    """The files of one store: by version the snapshots and the changelogs (several after a retry)."""

    snapshots: dict[int, list[Path]] = field(default_factory=dict)
    changes: dict[int, list[Path]] = field(default_factory=dict)


def check_state(facts: Facts) -> Iterator[Finding]:
    """`state`: the state after the last commit is complete. State of version V is the result of batch V - 1."""
    yield from state_problems(facts, facts.last_commit + 1)


def state_problems(facts: Facts, version: int) -> Iterator[Finding]:
    """Problems that keep Spark from loading the state of `version`; none for a stateless query and for version 0."""
    if not facts.expected.stateful or version == 0:
        return
    root = facts.folder / "state"
    operators = folder_numbers(root)
    missing = next((n for n in range(max(len(operators), facts.expected.operators)) if n not in operators), None)
    if missing is not None:
        yield _lost(root / str(missing), f"is missing: operator {missing} has lost all its state")
    for operator in operators:
        yield from _operator(root / str(operator), facts.expected.partitions, version, logged=_logged(facts))


def _logged(facts: Facts) -> int:
    """The partitions of the last committed batch, according to its offsets file; 0 if it lacks them.

    Only this number is correct after a rescale: Spark does not update the operator's own metadata.
    """
    plan = facts.plans.get(facts.last_commit)
    number = plan.content.metadata["conf"].get(PARTITIONS, "") if plan is not None and plan.content else ""
    return int(number) if str(number).isdigit() else 0


def _operator(folder: Path, expected: int, version: int, *, logged: int) -> Iterator[Finding]:
    described = _described(folder / "_metadata")
    label = f"operator {folder.name}"
    if described.content is None:
        severe = described.state != "sound"
        meaning = described.problem if severe else f"is missing: the stores of {label} are unknown"
        yield _lost(described.file, meaning, severe=severe)
    operator = described.content or Operator("", {DEFAULT_STORE: expected})
    label = f"{label} ({operator.name})" if operator.name else label
    there = folder_numbers(folder)
    for store, noted in operator.stores.items():
        partitions = logged or expected or noted or len(there)
        strays = not logged and (noted not in {0, partitions} or (there and there[-1] >= partitions))
        if strays or (expected and partitions != expected):
            found = logged or max(noted, there[-1] + 1 if there else 0)
            has = count_of(found, "partition")
            yield _lost(folder, f"has the state of {label} in {has} instead of {expected or partitions}")
            return
        for partition in range(partitions):
            place = folder / str(partition) / ("" if store == DEFAULT_STORE else store)
            where = f"{label}, partition {partition}" + ("" if store == DEFAULT_STORE else f", store {store}")
            yield from _store(place, where, version)


def _described(folder: Path) -> Read[Operator]:
    """The operator's own metadata: one file in format 1, one for each batch that changed it in format 2."""
    newest = file_numbers(folder / "v2")
    if newest:
        return read(folder / "v2" / str(newest[-1]), _parse_operator)
    if "metadata" in file_names(folder):
        return read(folder / "metadata", _parse_operator)
    return Read(file=folder / "metadata")


def _parse_operator(data: bytes) -> Operator:
    version, newline, body = data.partition(b"\n")
    if not newline or version not in {b"v1", b"v2"}:
        raise Damaged("is empty" if not data else "does not begin with a known version")
    content = json_object(body)
    info, stores = content.get("operatorInfo"), content.get("stateStoreInfo")
    if not isinstance(info, dict) or not isinstance(stores, list) or not stores:
        raise Damaged("does not describe an operator")
    return Operator(str(info.get("operatorName", "")), dict(map(_parse_store, stores)))


def _parse_store(store: Any) -> tuple[str, int]:
    name, partitions = (store.get("storeName"), store.get("numPartitions")) if isinstance(store, dict) else (None, None)
    if not isinstance(name, str) or not _STORE.fullmatch(name) or type(partitions) is not int or partitions < 1:
        raise Damaged("describes an invalid store")
    return name, partitions


def _store(folder: Path, where: str, version: int) -> Iterator[Finding]:
    """The newest snapshot up to `version` and all later changes are present and sound."""
    files = _versions(folder)
    base = max((number for number in files.snapshots if number <= version), default=0)
    needed = f"{where}: version {version} cannot be loaded"
    steps = [number for number in sorted(files.changes) if base < number <= version]
    for low, high in gaps([base, *steps, version + 1]):
        missing = f"version {low} is" if low == high else f"versions {low} to {high} are"
        file = folder / f"{low}.changelog" if steps or base else folder
        yield _lost(file, f"does not exist: {missing} missing; {needed}")
    if base:
        yield from _snapshot(files, base, needed)
    for number in steps:
        problems = [(file, changes_problem(file)) for file in files.changes[number]]
        if all(problem for _, problem in problems):
            yield _lost(problems[0][0], f"{problems[0][1]}; {needed}")


def _snapshot(files: Versions, base: int, needed: str) -> Iterator[Finding]:
    problems = [(file, snapshot_problem(file)) for file in files.snapshots[base]]
    if not all(problem for _, problem in problems):
        return
    file, problem = problems[0]
    older = max((number for number in files.snapshots if number < base), default=0)
    way_round = not gaps([older, *(number for number in sorted(files.changes) if older < number <= base), base + 1])
    from_there = f"snapshot {older} and all changes" if older else "all changes from the first on"
    remedy = f"move it away: {from_there} up to it exist; otherwise {REMEDY}" if way_round else REMEDY
    yield Finding(code="state", severity="error", file=file, meaning=f"{problem}; {needed}", remedy=remedy)


def _versions(folder: Path) -> Versions:
    found = Versions()
    for name in sorted(file_names(folder)):
        match = _FILE.fullmatch(name)
        if match:
            kind = found.snapshots if match[2] in {"zip", "snapshot"} else found.changes
            kind.setdefault(int(match[1]), []).append(folder / name)
    return found


def _lost(file: Path, meaning: str, *, severe: bool = True) -> Finding:
    severity: Severity = "error" if severe else "warning"
    return Finding(code="state", severity=severity, file=file, meaning=meaning, remedy=REMEDY)
