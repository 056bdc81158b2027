"""What a statement of the binary log did to a table: nothing, emptied it, or something that its rows do not show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple

Effect = Literal["none", "truncate", "unlogged"]
_TOKEN: Final = re.compile(
    r"""/\*(?!M?!).*?\*/|/\*M?!\d*|\*/|--\s[^\n]*|\#[^\n]*|'(?:[^'\\]|\\.|'')*'"""
    r"""|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|[\w$]+|[^\s\w]""",
    re.DOTALL,
)
_IGNORED: Final = ("/*", "*/", "--", "#")
_VERBS: Final = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "CALL", "SELECT", "IMPORT", "DO"})
_CONDITIONS: Final = frozenset({"IF", "NOT", "EXISTS", "ONLINE", "IGNORE", "OR", "REPLACE", "WAIT", "NOWAIT"})
# What an ALTER may add or drop without a value of a row being changed.
_PARTS: Final = frozenset(
    {"INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "PRIMARY", "FOREIGN", "CONSTRAINT", "CHECK"}
)
_HARMLESS: Final = frozenset(
    {
        "ALTER", "AUTO_INCREMENT", "COMMENT", "ROW_FORMAT", "FORCE", "ORDER", "ENABLE", "DISABLE", "LOCK", "ALGORITHM",
        "WAIT", "NOWAIT", "DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "KEY_BLOCK_SIZE", "STATS_PERSISTENT",
        "STATS_AUTO_RECALC", "STATS_SAMPLE_PAGES", "PAGE_COMPRESSED", "ANALYZE", "CHECK", "OPTIMIZE", "REBUILD",
        "REPAIR", "REORGANIZE", "COALESCE", "REMOVE", "PARTITION",
    }
)  # fmt: skip


class Token(NamedTuple):
    """A word, a name or a mark; `word` in capitals, empty if it was quoted."""

    name: str
    word: str


def effect_of(sql: str, database: str, *, of: tuple[str, str], fields: Iterable[str]) -> Effect:
    """What a statement that was executed in `database` did to the table `of`, whose `fields` are read.

    >>> table = {"of": ("shop", "orders"), "fields": ["id", "state"]}
    >>> effect_of("ALTER TABLE orders ADD INDEX (state)", "shop", **table)
    'none'
    >>> effect_of("ALTER TABLE shop.orders DROP state", "", **table), effect_of("TRUNCATE orders", "shop", **table)
    ('unlogged', 'truncate')
    """
    tokens = [*_tokens(sql)]
    words = [token.word for token in tokens]
    verb, what = words[0] if words else "", words[1] if len(words) > 1 else ""
    named = [*_places(tokens, database, of)]
    if verb in _VERBS:
        # A statement in place of its rows may change any table, by triggers and functions.
        return "unlogged" if named or database == of[0] else "none"
    if verb == "DROP" and what in ("DATABASE", "SCHEMA"):
        return "unlogged" if of[0].casefold() in {token.name.casefold() for token in tokens[2:]} else "none"
    return "none" if not named or "TEMPORARY" in words[:4] else _defined(tokens, named, fields)


def point_of(sql: str) -> str:
    """The name of the savepoint that a statement sets, or goes back to.

    >>> point_of("SAVEPOINT `Before it`"), point_of("ROLLBACK TO `before it`")
    ('before it', 'before it')
    """
    return [*_tokens(sql)][-1].name.casefold()


def _defined(tokens: Sequence[Token], named: Sequence[int], fields: Iterable[str]) -> Effect:
    """The effect of a statement about tables that names this one."""
    words = [token.word for token in tokens]
    verb = words[0]
    if verb == "ALTER" and "TABLE" in words[:4]:
        return _altered(tokens, named, fields)
    replaced = words[:4] == ["CREATE", "OR", "REPLACE", "TABLE"] and not {4, 6}.isdisjoint(named)
    gone = verb == "RENAME" or (verb == "DROP" and words[1] in ("TABLE", "TABLES"))
    return "truncate" if verb == "TRUNCATE" else "unlogged" if gone or replaced else "none"


def _altered(tokens: Sequence[Token], named: Sequence[int], fields: Iterable[str]) -> Effect:
    words = [token.word for token in tokens]
    target = _first(words, words.index("TABLE") + 1)
    if target not in named and target + 2 not in named:
        return "unlogged" if "EXCHANGE" in words else "none"
    after = target + 1 if target in named else target + 3
    read = {field.casefold() for field in fields}
    return "none" if all(_is_harmless(spec, read) for spec in _specs(tokens[after:])) else "unlogged"


def _is_harmless(spec: Sequence[Token], read: set[str]) -> bool:
    """Whether one change of an ALTER leaves the values of the fields `read` as they are."""
    words = [token.word for token in spec if token.word != "COLUMN" and token.word not in _CONDITIONS]
    names = [token.name.casefold() for token in spec if token.word != "COLUMN" and token.word not in _CONDITIONS]
    verb, part = words[0] if words else "", words[1] if len(words) > 1 else ""
    if verb == "ADD":
        cascades = "CASCADE" in words or ("SET", "NULL") in pairwise(words)
        return part not in ("SYSTEM", "PERIOD") and not cascades
    if verb == "DROP":
        return part in _PARTS or (part not in ("PARTITION", "SYSTEM", "PERIOD") and names[1] not in read)
    if verb in ("MODIFY", "CHANGE"):
        return not read & {*names[1 : 2 if verb == "MODIFY" else 3]}
    if verb == "RENAME":
        return part in ("INDEX", "KEY") or (len(names) > 3 and not read & {names[1], names[3]})
    if verb == "ENGINE":
        return "innodb" in names
    return verb in _HARMLESS


def _tokens(sql: str) -> Iterator[Token]:
    for text in _TOKEN.findall(sql):
        if text.startswith(_IGNORED):
            continue
        if text[0] in "`\"'":
            yield Token(text[1:-1].replace(text[0] * 2, text[0]), "")
        else:
            yield Token(text, text.upper())


def _places(tokens: Sequence[Token], database: str, of: tuple[str, str]) -> Iterator[int]:
    """Where the table is named."""
    schema, table = (name.casefold() for name in of)
    for at, token in enumerate(tokens):
        if token.name.casefold() != table or at == 0:
            continue
        qualified = at >= 2 and tokens[at - 1].word == "."
        if (tokens[at - 2].name.casefold() if qualified else database.casefold()) == schema:
            yield at


def _first(words: Sequence[str], at: int) -> int:
    """Where the first name is from `at` on."""
    return next((place for place in range(at, len(words)) if words[place] not in _CONDITIONS), at)


def _specs(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The changes of an ALTER: what lies between its commas, outside of parentheses."""
    depth = 0
    spec: list[Token] = []
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.word, 0)
        if token.word == "," and depth == 0:
            yield spec
            spec = []
        else:
            spec.append(token)
    if spec:
        yield spec
