"""CREATE TABLE as Spark writes it: USING, OPTIONS, LOCATION."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rs_assets.sql.read.cursor import Cursor
from rs_assets.sql.read.source import nearest
from rs_assets.sql.read.statements import Word

# The connector and the file format of each provider.
PROVIDERS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "json": ("filesystem", "json"),
        "csv": ("filesystem", "csv"),
        "text": ("filesystem", "text"),
        "parquet": ("filesystem", "parquet"),
        "delta": ("delta", ""),
        "kafka": ("kafka", ""),
        "console": ("print", ""),
        "memory": ("memory", ""),
        "jdbc": ("jdbc", ""),
    }
)
# Options of Spark's readers and writers, and their names here.
OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "path": "path",
        "header": "csv.header",
        "sep": "csv.field-delimiter",
        "delimiter": "csv.field-delimiter",
        "compression": "compression",
        "startingversion": "starting-version",
        "readchangefeed": "changes",
        "delta.enablechangedatafeed": "change-feed",
        "maxfilespertrigger": "max-files-per-batch",
        "kafka.bootstrap.servers": "properties.bootstrap.servers",
        "subscribe": "topic",
        "subscribepattern": "topic-pattern",
        "topic": "topic",
        "kafka.group.id": "properties.group.id",
        "startingoffsets": "scan.startup.mode",
        "maxoffsetspertrigger": "max-rows-per-batch",
        "numrows": "max-rows",
        "url": "url",
        "dbtable": "table-name",
    }
)
STARTS: Final = MappingProxyType({"earliest": "earliest-offset", "latest": "latest-offset"})
Options = dict[str, tuple[Word, Word]]


def spark_table(cursor: Cursor) -> tuple[Options, tuple[Word, ...]]:
    """The clauses after the columns of a table: its options, by their names in streaming SQL, and its partitions."""
    made: Options = {}
    partitioned: tuple[Word, ...] = ()
    while cursor.peek() is not None and not cursor.at(";"):
        if cursor.take("USING"):
            _using(cursor, made)
        elif cursor.take("OPTIONS"):
            _options(cursor, made)
        elif cursor.take("LOCATION"):
            at = cursor.before
            _put(cursor, made, "path", Word("LOCATION", at), cursor.string("the path"))
        elif cursor.take("PARTITIONED BY"):
            partitioned = cursor.names()
        elif cursor.take("COMMENT"):
            cursor.string("the comment")
        elif cursor.at("WITH"):
            raise cursor.error(
                "WITH is not Spark's syntax for options", remedy="USING json OPTIONS (path '/data/clicks')"
            )
        else:
            raise cursor.error(
                f"{cursor.shown()} is not allowed here",
                remedy="use USING, OPTIONS, LOCATION, PARTITIONED BY or COMMENT",
            )
    return made, partitioned


def _using(cursor: Cursor, made: Options) -> None:
    at = Word("USING", cursor.before)
    name = cursor.name("the provider")
    found = PROVIDERS.get(name.text.lower())
    if found is None:
        raise cursor.text.error(
            f"unknown provider {name.text!r}", name.start, remedy=nearest(name.text.lower(), PROVIDERS)
        )
    _put(cursor, made, "connector", at, Word(found[0], name.start))
    if found[1]:
        _put(cursor, made, "format", at, Word(found[1], name.start))


def _options(cursor: Cursor, made: Options) -> None:
    cursor.need("(")
    while True:
        key = cursor.option_key()
        cursor.take("=")
        value = cursor.string(f"the value of {key.text!r}")
        known = OPTIONS.get(key.text.lower())
        if known is None:
            raise cursor.text.error(f"unknown option {key.text!r}", key.start, remedy=nearest(key.text, OPTIONS))
        if known == "scan.startup.mode":
            value = Word(STARTS.get(value.text, value.text), value.start)
        if known == "topic":
            value = Word(value.text.replace(",", ";"), value.start)
        _put(cursor, made, known, key, value)
        if not cursor.take(","):
            break
    cursor.need(")", "separate options by commas")


def _put(cursor: Cursor, made: Options, name: str, key: Word, value: Word) -> None:
    if name in made:
        raise cursor.text.error(f"duplicate option {key.text!r}", key.start, remedy="remove one")
    made[name] = (key, value)
