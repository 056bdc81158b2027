"""Keys that were forgotten: entries of the ledger that have digests of the keys, with a salt, in place of the keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rs_assets.catalog.ledger import Ledger

FORGET: Final = "forget"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenKeys:
    """What one entry says.

    `digests` has those of the keys by field, made with `salt`; `columns` the names of fields that differ in a place, as
    "place:column"; `batches` the generation and the last batch of each query at that time, by its stored name.
    """

    salt: str
    digests: Mapping[str, tuple[str, ...]]
    columns: Mapping[str, str]
    batches: Mapping[str, tuple[int, int]]

    def named(self, place: str) -> Mapping[str, str]:
        """The columns of a place that hold a field, with the field."""
        renamed = {at.partition(":")[2]: of for at, of in self.columns.items() if at.partition(":")[0] == place}
        return {**{name: name for name in self.digests if name not in renamed.values()}, **renamed}


def digest_of(salt: str, field: str, text: str) -> str:
    """The digest that stands for a value of a field.

    >>> digest_of("5f", "user", "17")[:12]
    '276d87641fcf'
    """
    return hashlib.sha256(f"{salt}:{field}:{text}".encode()).hexdigest()


def forgotten_keys(ledger: Ledger) -> tuple[ForgottenKeys, ...]:
    """Those of a pipeline, oldest first."""
    said = (json.loads(entry["forgotten"]) for entry in ledger.entries() if entry["kind"] == FORGET)
    return tuple(
        ForgottenKeys(
            salt=each["salt"],
            digests={name: tuple(found) for name, found in each["digests"].items()},
            columns=each["columns"],
            batches={query: (generation, batch) for query, (generation, batch) in each["batches"].items()},
        )
        for each in said
    )
