"""Keys that were forgotten: entries of the ledger that have digests of the keys, with a salt, in place of the keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Final

from rs_assets.catalog.ledger import Ledger

FORGET: Final = "forget"
# Numbers with more digits before or after the point have no short text here.
LONGEST: Final = 400
EXACT: Final = Context(prec=2 * LONGEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenKeys:
    """What one entry says.

    `digests` has those of the keys by field, made with `salt`, and `numbers` those of keys that are numbers, by their
    shortest text; `columns` the names of fields that differ in a place, as "place:column"; `batches` the generation and
    the last batch of each query at that time, by its stored name.
    """

    salt: str
    digests: Mapping[str, tuple[str, ...]]
    columns: Mapping[str, str]
    batches: Mapping[str, tuple[int, int]]
    numbers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def named(self, *places: str) -> Mapping[str, str]:
        """The columns of a place, which may have several names, that hold a field, with the field."""
        renamed = {at.partition(":")[2]: of for at, of in self.columns.items() if at.partition(":")[0] in places}
        return {**{name: name for name in self.digests if name not in renamed.values()}, **renamed}


def digest_of(salt: str, name: str, text: str) -> str:
    """The digest that stands for a value of a field.

    >>> digest_of("5f", "user", "17")[:12]
    '276d87641fcf'
    """
    return hashlib.sha256(f"{salt}:{name}:{text}".encode()).hexdigest()


@lru_cache(maxsize=4096)
def as_number(text: str) -> str | None:
    """The shortest text of the number in a text, None if there is none.

    >>> as_number("017.50"), as_number("1.7e1"), as_number("ann")
    ('17.5', '17', None)
    """
    try:
        # Python reads 1_000 and digits of other scripts, too.
        number = Decimal(text if text.isascii() and "_" not in text else "")
    except InvalidOperation:
        return None
    if not number.is_finite() or abs(number.adjusted()) > LONGEST or len(text) > LONGEST:
        return None
    short = f"{number.normalize(EXACT):f}"
    return "0" if short == "-0" else short


def forgotten_keys(ledger: Ledger) -> tuple[ForgottenKeys, ...]:
    """Those of a pipeline, oldest first."""
    said = (json.loads(entry["forgotten"]) for entry in ledger.entries() if entry["kind"] == FORGET)
    return tuple(
        ForgottenKeys(
            salt=each["salt"],
            digests={name: tuple(found) for name, found in each["digests"].items()},
            columns=each["columns"],
            batches={query: (generation, batch) for query, (generation, batch) in each["batches"].items()},
            # Entries of earlier releases have none.
            numbers={name: tuple(found) for name, found in each.get("numbers", {}).items()},
        )
        for each in said
    )
