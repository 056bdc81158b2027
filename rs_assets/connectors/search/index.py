"""The name of an index, which may contain fields of a row and dates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rs_assets.errors import TopologyError

if TYPE_CHECKING:
    from pyspark.sql import Column

PART: Final = re.compile(r"\{([^{}|]+)(?:\|([^{}|]+))?\}")
# What no index may contain; capitals are refused by servers, too.
FORBIDDEN: Final = re.compile(r"""[\s"*\\<|,>/?#:A-Z{}]""")
# The bytes of a name.
MOST_BYTES: Final = 255


@dataclass(frozen=True, slots=True)
class IndexName:
    """A name such as `orders`, or `orders-{ts|yyyy.MM}` for one index a month, or `orders-{country}`.

    A pattern is one of Spark's `date_format`; times are in UTC.

    >>> IndexName("orders-{ts|yyyy.MM}-{country}").fields
    ('ts', 'country')
    """

    text: str

    def check(self, *, step: str) -> None:
        """TopologyError for what cannot be the name of an index."""
        fixed = PART.sub("", self.text) if isinstance(self.text, str) else ""
        begins = isinstance(self.text, str) and self.text[:1] not in ("", "-", "_", "+", ".")
        if not begins or FORBIDDEN.search(fixed) or len(self.text.encode()) > MOST_BYTES:
            raise TopologyError(
                f"step {step!r}: {self.text!r} is not the name of an index",
                remedy="write it in lower case: 'orders', or with a field: 'orders-{ts|yyyy.MM}', 'orders-{country}'",
                step=step,
            )

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that it contains."""
        return tuple(field for field, _ in PART.findall(self.text))

    @property
    def dated(self) -> tuple[str, ...]:
        """Those that are formatted as dates."""
        return tuple(field for field, pattern in PART.findall(self.text) if pattern)

    def column(self) -> Column:
        """The name for a row; null if one of its fields is."""
        from pyspark.sql import functions as F

        from rs_assets.records.schema import quoted

        parts, at = list["Column"](), 0
        for found in PART.finditer(self.text):
            value = F.col(quoted(found[1]))
            parts += [
                F.lit(self.text[at : found.start()]),
                F.date_format(value, found[2]) if found[2] else value.cast("string"),
            ]
            at = found.end()
        return F.concat(*parts, F.lit(self.text[at:]))
