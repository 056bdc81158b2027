"""Texts of fields as digests, so that records can leave production without them."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kinds

from rs_assets.common.names import one_or_more
from rs_assets.errors import ConfigurationError

# How many hexadecimal digits of a digest replace a text.
DIGITS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Masks:
    """Replaces the texts in `fields`, also those within lists, structs and values of maps; null stays null.

    Equal texts become equal. The key of the digests is made once for each capture and kept nowhere, so that the text
    cannot be found by trying likely ones.

    >>> hidden = Masks.of(["email"])
    >>> row = hidden.row({"email": "ada@example.org", "ms": 12})
    >>> row["email"] == hidden.row({"email": "ada@example.org"})["email"] != "ada@example.org", row["ms"]
    (True, 12)
    """

    fields: tuple[str, ...]
    key: bytes = field(repr=False)

    @classmethod
    def of(cls, fields: Collection[str]) -> Masks:
        """Those of some fields, with a new key."""
        return cls(fields=one_or_more(fields), key=secrets.token_bytes(32))

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        """ConfigurationError for a field that no source has, or that has no text."""
        types = {each.name: each.type for schema in schemas.values() for each in schema}
        for name in self.fields:
            if name not in types or not any(map(kinds.is_string, _parts(types[name]))):
                texts = [known for known, kind in types.items() if any(map(kinds.is_string, _parts(kind)))]
                raise ConfigurationError(
                    f"{name!r} cannot be masked: it is not a field of the records with text",
                    remedy=f"mask some of: {', '.join(texts) or 'none'}",
                )

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row with its texts replaced."""
        return {name: self._masked(value) if name in self.fields else value for name, value in row.items()}

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return hmac.digest(self.key, value.encode(), "sha256").hex()[:DIGITS]
        if isinstance(value, Mapping):
            return {key: self._masked(each) for key, each in value.items()}
        return [self._masked(each) for each in value] if isinstance(value, list) else value


def _parts(kind: pa.DataType) -> Iterator[pa.DataType]:
    """A type and all types within it, except for keys of maps, which stay as they are."""
    yield kind
    inner = [kind.item_type] if kinds.is_map(kind) else [kind.value_type] if kinds.is_list(kind) else []
    inner += [each.type for each in kind] if kinds.is_struct(kind) else []
    for each in inner:
        yield from _parts(each)
