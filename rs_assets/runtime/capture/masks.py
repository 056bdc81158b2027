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
    """Replaces the texts in `fields`, also those within lists, structs and values of maps; null and keys of maps stay.

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
        """ConfigurationError for a field that no source has with text."""
        fields = [each for schema in schemas.values() for each in schema]
        texts = dict.fromkeys(each.name for each in fields if any(map(kinds.is_string, _parts(each.type))))
        for name in self.fields:
            if name not in texts:
                raise ConfigurationError(
                    f"{name!r} cannot be masked: it is not a field of the records with text",
                    remedy=f"mask some of: {', '.join(texts) or 'none'}",
                )

    def left(self, schemas: Mapping[str, pa.Schema]) -> Iterator[str]:
        """What stays as it is in masked fields, in words."""
        found = (each for schema in schemas.values() for each in schema if each.name in self.fields)
        for name in dict.fromkeys(each.name for each in found if any(map(_has_text_keys, _parts(each.type)))):
            yield f"keys of maps in the masked field {name!r} stay as they are"

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row with its texts replaced."""
        return {name: self._masked(value) if name in self.fields else value for name, value in row.items()}

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return hmac.digest(self.key, value.encode(), "sha256").hex()[:DIGITS]
        if isinstance(value, Mapping):
            return {key: self._masked(each) for key, each in value.items()}
        if isinstance(value, tuple):
            # An entry of a map: rows have pairs if the keys of one map do not fit into a dict.
            key, each = value
            return key, self._masked(each)
        return [self._masked(each) for each in value] if isinstance(value, list) else value


def _has_text_keys(kind: pa.DataType) -> bool:
    return kinds.is_map(kind) and any(map(kinds.is_string, _parts(kind.key_type)))


def _parts(kind: pa.DataType) -> Iterator[pa.DataType]:
    """A type and all types within it, except for keys of maps, which stay as they are."""
    yield kind
    inner = [kind.item_type] if kinds.is_map(kind) else [kind.value_type] if kinds.is_list(kind) else []
    inner += [each.type for each in kind] if kinds.is_struct(kind) else []
    for each in inner:
        yield from _parts(each)
