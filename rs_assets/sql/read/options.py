"""The options of WITH (...); options that are not read are refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from rs_assets.errors import SqlError
from rs_assets.sql.read.source import Text, nearest
from rs_assets.sql.read.statements import CreateTable, Word

# Option names of RocketMQ-Streams, Blink and older versions of Flink, and their names here.
OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "type": "connector",
        "connector.type": "connector",
        "connector.path": "path",
        "connector.topic": "topic",
        "format.type": "format",
        "filePath": "path",
        "bootstrap.servers": "properties.bootstrap.servers",
        "group.id": "properties.group.id",
        "value.format": "format",
        **{f"value.avro-confluent.{name}": f"avro-confluent.{name}" for name in ("url", "subject", "schema")},
        **{f"value.protobuf.{name}": f"protobuf.{name}" for name in ("url", "subject", "message-name", "descriptor")},
        **{
            f"value.{form}.basic-auth.user-info": f"{form}.basic-auth.user-info"
            for form in ("avro-confluent", "protobuf")
        },
        "namesrvAddr": "nameServerAddress",
        "tags": "tag",
        "startingVersion": "starting-version",
        "parquet.compression": "compression",
    }
)
CONNECTORS: Final[Mapping[str, str]] = MappingProxyType(
    {"file": "filesystem", "array": "memory", "upsert-kafka": "kafka", "metaq": "rocketmq"}
    | dict.fromkeys(("elasticsearch", "elasticsearch-7", "elasticsearch-8"), "search")
    | dict.fromkeys(("opensearch", "opensearch-1", "opensearch-2"), "search")
)
# The columns that say which of two rows with one key is newer.
ORDER_BY: Final = "order-by"
# Those that SQL knows by other names only.
NAMELESS: Final = frozenset({"search"})
TRUTH: Final = {"true": True, "false": False}


def names_of(connectors: Iterable[str]) -> list[str]:
    """The names in SQL of some connectors.

    >>> names_of(["kafka", "delta"])
    ['kafka', 'delta', 'upsert-kafka']
    """
    known = [*connectors]
    others = [name for name, of in CONNECTORS.items() if of in known]
    return [*(each for each in known if each not in NAMELESS), *others]


@dataclass(slots=True)
class Options:
    """The options of one table. `use` is the use of the table, for errors."""

    text: Text
    table: CreateTable
    use: str
    found: dict[str, tuple[Word, Word]] = field(default_factory=dict)
    known: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, text: Text, table: CreateTable, use: str) -> Options:
        """The options of a table, under their names here."""
        made = cls(text, table, use)
        for key, pair in table.options.items():
            name = OTHER_NAMES.get(key, key)
            if name in made.found:
                raise text.error(f"the option {name!r} is given twice, once as {key!r}", pair[0].start)
            made.found[name] = pair
        return made

    def take(self, key: str, default: str | None = None) -> str | None:
        """The value of an option, `default` if it is not given."""
        self.known.append(key)
        pair = self.found.pop(key, None)
        return pair[1].text if pair is not None else default

    def need(self, key: str, example: str) -> str:
        """The value of a required option."""
        value = self.take(key)
        if not value:
            raise self.error(
                f"the table {self.table.name.text!r} has no {key!r}", remedy=f"WITH ('{key}' = '{example}')"
            )
        return value

    def choice(self, key: str, values: Mapping[str, Any], default: str) -> Any:
        """The entry of `values` for the value of an option."""
        pair = self.found.get(key)
        value = str(self.take(key, default))
        if value not in values:
            raise self.error(
                f"the option {key!r} cannot be {value!r}", at=pair[1].start if pair else None,
                remedy=f"use {' or '.join(values)}",
            )  # fmt: skip
        return values[value]

    def number(self, key: str, *, least: int = 1) -> int | None:
        """An option that is a whole number of at least `least`."""
        pair = self.found.get(key)
        value = self.take(key)
        if value is None:
            return None
        if not value.isdigit() or int(value) < least:
            kind = "a positive number" if least else "a whole number from 0"
            raise self.error(f"the option {key!r} must be {kind}", at=pair[1].start if pair else None)
        return int(value)

    def names(self, key: str) -> tuple[str, ...]:
        """An option that is a list of names with commas between; empty if it is not given."""
        return tuple(filter(None, (name.strip() for name in (self.take(key) or "").split(","))))

    def flag(self, key: str) -> bool:
        """An option that is 'true' or 'false', false if it is not given."""
        return bool(self.choice(key, TRUTH, "false"))

    def check_all_read(self) -> None:
        """SqlError for an unknown option."""
        for key, (word, _) in self.found.items():
            raise self.error(
                f"the {self.use} {self.table.name.text!r} has no option {key!r}",
                at=word.start,
                remedy=nearest(key, sorted(set(self.known))),
            )

    def error(self, what: str, *, at: int | None = None, remedy: str = "") -> SqlError:
        """The error for an option, or for the table."""
        return self.text.error(what, self.table.name.start if at is None else at, remedy=remedy)
