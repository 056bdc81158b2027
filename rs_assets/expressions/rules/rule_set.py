"""A version of a table of rules, compiled for a stream of known fields, and stored next to it on disk."""

from __future__ import annotations

import hashlib
import math
import pickle
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson
import pyarrow as pa

from rs_assets.common.files import write_atomically
from rs_assets.errors import RsError
from rs_assets.expressions.rules.atoms import READABLE, formula_of
from rs_assets.expressions.rules.compiled import Compiled, compiled
from rs_assets.expressions.rules.having import check_having, is_counted
from rs_assets.expressions.rules.normal import Conjunction, TooManyError, conjunctions_of
from rs_assets.expressions.rules.scan import hyperscan
from rs_assets.expressions.syntax.typed import WHOLE
from rs_assets.operators.dimension.index import Index

RULE, CONDITION, ENABLED, PRIORITY, HAVING = "rule", "condition", "enabled", "priority", "having"
KEYS = (RULE,)
# What a rule without a name is reported as.
NAMELESS = "(no name)"
# Changed when the form of compiled rules changes.
FORM = 4
FOLDER = ".compiled"
# Sets that a worker keeps: both versions of a change, for a few steps.
KEPT = 4

Types = Mapping[str, str | None]
# What conditions say over known fields, by their text: conjunctions, or what is wrong.
Read = dict[str, tuple[Conjunction, ...] | str]
Made = TypeVar("Made")
_open: OrderedDict[Path, RuleSet] = OrderedDict()


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a version that can be evaluated, by priority and name.

    `rows` are their rows in the table, `faults` say by name why others were left out.
    """

    compiled: Compiled
    rows: pa.Array
    faults: Mapping[str, str]

    def __len__(self) -> int:
        """How many rules are evaluated."""
        return len(self.rows)


def rule_set_of(table: pa.Table, fields: Types, *, step: str, known: Read | None = None) -> RuleSet:
    """The rules of a table with at least the columns `rule` and `condition`, over `fields` with their Spark types.

    Conditions read those of `readable`, and `having` those of `counted`.
    A rule that cannot be evaluated is left out, and said in `faults`; so is one without a name that is its own. What is
    `known` of these fields is not parsed, and what is parsed becomes known.

    >>> table = pa.table({"rule": ["slow", "typo"], "condition": ["(ms,>,100)", "(mss,>,1)"]})
    >>> made = rule_set_of(table, {"ms": "bigint"}, step="judge")
    >>> len(made), made.faults["typo"].splitlines()[0]
    (1, "step 'judge' names the field 'mss', which does not exist [step=judge]")
    """
    known = {} if known is None else known
    faults: dict[str, str] = {}
    kept: dict[str, tuple[int, tuple[Conjunction, ...]]] = {}
    listed = table.select([name for name in (RULE, CONDITION, ENABLED, PRIORITY, HAVING) if name in table.schema.names])
    order = []
    for row, each in enumerate(listed.to_pylist()):
        name = each[RULE]
        if not name:
            faults[NAMELESS] = "a rule has no name"
        elif each.get(ENABLED) is False:
            # Whatever has its name: which of the two comes first is not known of a table.
            continue
        elif name in kept or name in faults:
            faults[name] = "several rules have this name"
            kept.pop(name, None)
        else:
            found = _read_condition(each[CONDITION] or "", fields, step, known)
            found = _wrong_having(each.get(HAVING), fields, step) or found
            if isinstance(found, str):
                faults[name] = found
            else:
                kept[name] = row, found
                order.append(((*_rank(each.get(PRIORITY)), name), name))
    names = [name for _, name in sorted(order) if name in kept]
    wholes = (name for name, kind in fields.items() if kind in WHOLE)
    made = compiled([kept[name][1] for name in names], wholes)
    return RuleSet(made, pa.array([kept[name][0] for name in names], pa.int64()), faults)


def _rank(priority: Any) -> tuple[bool, Any]:
    """By what rules are sorted: null and NaN come last."""
    last = priority is None or (isinstance(priority, float) and math.isnan(priority))
    return last, 0 if last else priority


def _read_condition(text: str, fields: Types, step: str, known: Read) -> tuple[Conjunction, ...] | str:
    """The conjunctions of a condition, or what is wrong with it. Versions share most of their rules."""
    if text not in known:
        try:
            known[text] = conjunctions_of(formula_of(text, fields, step=step))
        except (RsError, TooManyError) as error:
            known[text] = str(error)
    return known[text]


def _wrong_having(text: str | None, fields: Types, step: str) -> str | None:
    """What is wrong with what must be reached."""
    try:
        if text is not None:
            check_having(text, fields, step=step)
    except RsError as error:
        return str(error)
    return None


def readable(fields: Types) -> Types:
    """The fields that conditions of rules can read."""
    return {name: kind for name, kind in fields.items() if kind in READABLE}


def counted(fields: Types) -> Types:
    """The fields that `having` can read: those of `readable`, decimals and times."""
    return {name: kind for name, kind in fields.items() if kind is not None and is_counted(kind)}


def stored(root: Path, version: str, fields: Types, *, step: str) -> RuleSet:
    """The rules of `version` in the folder `root`, compiled at most once on this disk; OSError if it is gone."""
    digest = _digest(fields, step)
    place = root / FOLDER / f"{version}-{digest}"
    if place in _open:
        _open.move_to_end(place)
        return _open[place]
    made = _unpickled(place, RuleSet)
    if made is None:
        table = rows_of(root / version)
        parsed = root / FOLDER / f"parsed-{digest}"
        known = _unpickled(parsed, dict) or {}
        made = rule_set_of(table, fields, step=step, known=known)
        place.parent.mkdir(mode=0o750, exist_ok=True)
        texts = {text or "" for text in table[CONDITION].to_pylist()}
        write_atomically(parsed, pickle.dumps({text: each for text, each in known.items() if text in texts}))
        write_atomically(place, pickle.dumps(made))
    _open[place] = made
    while len(_open) > KEPT:
        _open.popitem(last=False)
    return made


def compiled_of(root: Path, version: str) -> RuleSet | None:
    """The rules of a version as a run has compiled them last; None if none has."""
    places = sorted((root / FOLDER).glob(f"{version}-*"), key=lambda place: place.stat().st_mtime)
    return _unpickled(places[-1], RuleSet) if places else None


def rows_of(folder: Path) -> pa.Table:
    """All rows of a version, as they were loaded; OSError if it is gone."""
    index = Index.open(folder, KEYS)
    every = np.arange(index.rows.num_rows)
    return pa.table({name: index.values(name, every) for name in index.rows.schema.names})


def names_of(root: Path, version: str, rules: RuleSet) -> list[str]:
    """The names of the rules of a version, by priority; OSError if it is gone."""
    made: list[str] = rows_of(root / version)[RULE].combine_chunks().take(rules.rows).to_pylist()
    return made


def forget(root: Path) -> None:
    """Remove what was compiled of versions that are gone."""
    for place in (root / FOLDER).glob("v*-*"):
        if not (root / place.name.rpartition("-")[0]).exists():
            place.unlink(missing_ok=True)


def _unpickled(place: Path, kind: type[Made]) -> Made | None:
    try:
        made: Any = pickle.loads(place.read_bytes())  # noqa: S301  this library's own file
    except (OSError, pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError):
        return None
    return made if isinstance(made, kind) else None


def _digest(fields: Types, step: str) -> str:
    scanner = hyperscan()
    known = [FORM, sorted(fields.items()), step, getattr(scanner, "__version__", None)]
    return hashlib.sha256(orjson.dumps(known)).hexdigest()[:12]
