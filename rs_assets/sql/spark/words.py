"""Rewrites Spark syntax that streaming SQL spells differently: windows, LATERAL VIEW, watermarks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rs_assets.sql.read.durations import UNITS
from rs_assets.sql.read.source import Text
from rs_assets.sql.read.token import like, word

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

BOUNDS: Final = {"START": "START", "END": "END"}
WINDOWS: Final = ("WINDOW", "SESSION_WINDOW")
MILLISECOND: Final = timedelta(milliseconds=1)
_PART: Final = re.compile(r"\s*(\d+)\s+([a-z]+?)s?(?=\s|$)", re.IGNORECASE)
FORM: Final = "GROUP BY window(ts, '10 minutes')"


@dataclass(frozen=True, slots=True)
class Grouped:
    """A window in GROUP BY: its name and arguments in streaming SQL, and the token range of its query."""

    kind: str
    arguments: Sequence[Token]
    query: tuple[int, int]


def as_streaming(text: Text, tokens: Sequence[Token]) -> list[Token]:
    """`tokens` of a Spark query as streaming SQL, each at its position; SqlError for unsupported syntax.

    GROUP BY window(ts, '10 minutes', '5 minutes') becomes HOP(ts, INTERVAL, INTERVAL), window.start HOP_START(...),
    LATERAL VIEW explode(tags) t AS tag becomes CROSS JOIN UNNEST(tags) AS t (tag).
    """
    return _windows(text, _views(text, list(tokens)))


def without_watermarks(
    text: Text, tokens: Sequence[Token]
) -> tuple[list[Token], list[tuple[Token, Token, list[Token]]]]:
    """`tokens` without WATERMARK ts DELAY OF INTERVAL 5 SECONDS, and the tables, columns and intervals of these."""
    made: list[Token] = []
    found: list[tuple[Token, Token, list[Token]]] = []
    at = 0
    while at < len(tokens):
        if word(tokens[at]) == "STREAM" and made and word(made[-1]) in ("FROM", "JOIN", ","):
            at += 1
            continue
        if word(tokens[at]) == "WATERMARK" and [word(each) for each in tokens[at + 2 : at + 4]] == ["DELAY", "OF"]:
            end = at + 4 + len(_interval(tokens[at + 4 :]))
            if end == at + 4 or not made or word(made[-1]) == ")":
                raise text.error(
                    "WATERMARK must follow a table name",
                    tokens[at],
                    remedy="FROM t WATERMARK ts DELAY OF INTERVAL 5 SECONDS",
                )
            found.append((made[-1], tokens[at + 1], list(tokens[at + 4 : end])))
            at = end
            continue
        made.append(tokens[at])
        at += 1
    return made, found


def _interval(tokens: Sequence[Token]) -> Sequence[Token]:
    """INTERVAL 5 SECONDS, INTERVAL '5' SECOND or INTERVAL '5 seconds' at the beginning of `tokens`."""
    if not tokens or word(tokens[0]) != "INTERVAL" or len(tokens) < 2:
        return ()
    return tokens[: 3 if len(tokens) > 2 and word(tokens[2]).removesuffix("S") in UNITS else 2]


def span(text: Text, tokens: Sequence[Token]) -> list[Token]:
    """A duration as an INTERVAL: from '10 minutes', or from Spark's INTERVAL."""
    at = tokens[0] if tokens else None
    values = [token for token in tokens if word(token) != "INTERVAL"]
    written = " ".join(token.text for token in values)
    if at is None or not re.fullmatch(f"({_PART.pattern})+\\s*", written, re.IGNORECASE):
        raise text.error("this is not a duration", at or 0, remedy="write it as '10 minutes'")
    time = timedelta(0)
    for number, unit in _PART.findall(written):
        if unit.upper() not in UNITS:
            raise text.error(
                f"{unit!r} is not a unit of fixed length", at, remedy="use seconds, minutes, hours or days"
            )
        time += UNITS[unit.upper()] * int(number)
    millis = f"{time // MILLISECOND}"
    return [like(at, "INTERVAL", "INTERVAL"), like(at, "STRING", millis), like(at, "VAR", "MILLISECOND")]


def _views(text: Text, tokens: list[Token]) -> list[Token]:
    """LATERAL VIEW [OUTER] explode(x) t AS a, b as a join with UNNEST."""
    made: list[Token] = []
    at = 0
    while at < len(tokens):
        if word(tokens[at]) != "LATERAL" or at + 1 == len(tokens) or word(tokens[at + 1]) != "VIEW":
            made.append(tokens[at])
            at += 1
            continue
        first, at = tokens[at], at + 2
        outer = word(tokens[at]) == "OUTER" if at < len(tokens) else False
        at += outer
        end = _closing(tokens, at + 1)
        if at >= len(tokens) or word(tokens[at]) != "EXPLODE" or end is None:
            raise text.error("LATERAL VIEW needs explode", first, remedy="LATERAL VIEW explode(tags) t AS tag")
        array, at = tokens[at + 2 : end], end + 1
        name, columns, at = _alias(text, tokens, at, first)
        joined = [like(first, "LEFT", "LEFT")] if outer else [like(first, "CROSS", "CROSS")]
        made += [*joined, like(first, "JOIN", "JOIN"), like(first, "UNNEST", "UNNEST"), like(first, "L_PAREN", "(")]
        made += [*array, like(first, "R_PAREN", ")"), like(first, "ALIAS", "AS"), name, like(first, "L_PAREN", "(")]
        for number, column in enumerate(columns):
            made += [*([like(first, "COMMA", ",")] if number else []), column]
        made += [
            like(first, "R_PAREN", ")"),
            *([like(first, "ON", "ON"), like(first, "TRUE", "TRUE")] if outer else []),
        ]
    return made


def _alias(text: Text, tokens: list[Token], at: int, first: Token) -> tuple[Token, list[Token], int]:
    """The alias of the generated rows, the names of their columns, and the position after them."""
    name = like(first, "VAR", "rows")
    if at < len(tokens) and word(tokens[at]) != "AS":
        name, at = tokens[at], at + 1
    if at >= len(tokens) or word(tokens[at]) != "AS":
        raise text.error("the elements have no alias", first, remedy="LATERAL VIEW explode(tags) t AS tag")
    columns, at = [tokens[at + 1]], at + 2
    while at + 1 < len(tokens) and word(tokens[at]) == ",":
        columns, at = [*columns, tokens[at + 1]], at + 2
    return name, columns, at


def _windows(text: Text, tokens: list[Token]) -> list[Token]:
    """Rewrites windows of GROUP BY and their bounds, separately for each SELECT."""
    found = list(_grouped(text, tokens))
    made: list[Token] = []
    at = 0
    while at < len(tokens):
        here, behind = word(tokens[at]), word(tokens[at + 1]) if at + 1 < len(tokens) else ""
        if here not in (*WINDOWS, "WINDOW_TIME") or behind not in ("(", "."):
            if here in WINDOWS and behind != "AS":
                raise _alone(text, tokens[at])
            made.append(tokens[at])
            at += 1
            continue
        inside = [each for each in found if each.query[0] <= at < each.query[1]]
        group = max(inside, key=lambda each: each.query[0], default=None)
        if group is None:
            raise text.error(f"{here.lower()} is only allowed in GROUP BY", tokens[at], remedy=FORM)
        end = _closing(tokens, at + 1) if behind == "(" else at + 2
        made += _call(text, tokens, at, group, here, behind)
        at = (end if end is not None else len(tokens)) + 1
    return made


def _alone(text: Text, at: Token) -> Exception:
    return text.error(
        "a window is not a value",
        at,
        remedy="select window.start and window.end, and GROUP BY window(...)",
    )


def _call(text: Text, tokens: list[Token], at: int, group: Grouped, here: str, behind: str) -> list[Token]:
    """The window of GROUP BY, or a bound of it."""
    token = tokens[at]
    bound = ""
    if here == "WINDOW_TIME":
        bound = "_ROWTIME"
    elif behind == ".":
        part = word(tokens[at + 2]) if at + 2 < len(tokens) else ""
        if part not in BOUNDS:
            raise text.error("a window has a start and an end", token, remedy="select window.start and window.end")
        bound = f"_{BOUNDS[part]}"
    name = like(token, "VAR", f"{group.kind}{bound}")
    return [name, like(token, "L_PAREN", "("), *group.arguments, like(token, "R_PAREN", ")")]


def _grouped(text: Text, tokens: list[Token]) -> Iterator[Grouped]:
    """The windows of all GROUP BY."""
    opened: list[int] = [0]
    inside: list[bool] = [False]
    for at, token in enumerate(tokens):
        here = word(token)
        if here == "(":
            opened.append(at)
            inside.append(False)
        elif here == ")" and len(opened) > 1:
            opened.pop()
            inside.pop()
        elif here == "GROUP BY":
            inside[-1] = True
        elif here in ("HAVING", "UNION", "UNION ALL", "SELECT"):
            inside[-1] = False
            if here.startswith("UNION"):
                opened[-1] = at
        elif here in WINDOWS and inside[-1] and at + 1 < len(tokens) and word(tokens[at + 1]) == "(":
            end = _closing(tokens, at + 1)
            if end is not None:
                yield _window(text, here, token, _split(tokens[at + 2 : end]), _query(tokens, opened[-1]))


def _query(tokens: list[Token], start: int) -> tuple[int, int]:
    """The range of a query that begins at `start`: up to its closing bracket, or a UNION."""
    depth = 0
    for at in range(start + 1 if word(tokens[start]) in ("(", "UNION", "UNION ALL") else start, len(tokens)):
        here = word(tokens[at])
        depth += (here == "(") - (here == ")")
        if depth < 0 or (depth == 0 and here.startswith("UNION")):
            return start, at
    return start, len(tokens)


def _window(text: Text, here: str, at: Token, arguments: list[list[Token]], query: tuple[int, int]) -> Grouped:
    most = 2 if here == "SESSION_WINDOW" else 4
    if not 2 <= len(arguments) <= most or not all(arguments):
        raise text.error(f"{here.lower()} takes a column and durations", at, remedy=FORM)
    column, spans = arguments[0], [span(text, each) for each in arguments[1:]]
    kind = "SESSION" if here == "SESSION_WINDOW" else "TUMBLE" if len(spans) == 1 or _same(spans) else "HOP"
    if kind == "TUMBLE":
        spans = [spans[0], *spans[2:]]
    elif kind == "HOP":
        spans = [spans[1], spans[0], *spans[2:]]
    made = list(column)
    for each in spans:
        made += [like(at, "COMMA", ","), *each]
    return Grouped(kind, made, query)


def _same(spans: list[list[Token]]) -> bool:
    return spans[0][1].text == spans[1][1].text


def _split(tokens: Sequence[Token]) -> list[list[Token]]:
    """The parts between commas outside of brackets."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (word(token) == "(") - (word(token) == ")")
        if depth == 0 and word(token) == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _closing(tokens: Sequence[Token], opening: int) -> int | None:
    """The position of the bracket that closes the one at `opening`."""
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (word(tokens[at]) == "(") - (word(tokens[at]) == ")")
        if depth == 0:
            return at if at > opening else None
    return None
