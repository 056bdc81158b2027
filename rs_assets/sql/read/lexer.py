"""Splits text into tokens, and rewrites tokens of streaming SQL so that sqlglot's own parser can read them.

Nothing here inherits from sqlglot's parser or its trees, because its compiled form forbids that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from rs_assets.sql.read.hints import check_hints
from rs_assets.sql.read.json_clauses import DEFAULT, MOST_WORDS, argument, between_members, clause_at, opening
from rs_assets.sql.read.source import Text
from rs_assets.sql.read.token import like, word
from rs_assets.sql.spark.words import as_streaming

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

ESCAPES: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_ESCAPED: Final = re.compile(r"\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)|''", re.DOTALL)
TOO_DEEP: Final = "an expression has too many terms or nested brackets"
# Prefix of each function name, so that sqlglot leaves its meaning to our table of functions.
CALL: Final = "RS_"
# Words before a bracket that are not calls.
STRUCTURE: Final = frozenset({
    "ALL", "AND", "ANY", "AS", "BETWEEN", "BY", "CASE", "CROSS", "CUBE", "DISTINCT", "ELSE", "END", "EXCEPT",
    "EXISTS", "FILTER", "FROM", "FULL", "GROUP", "GROUPING", "HAVING", "IN", "INNER", "INTERSECT", "INTERVAL",
    "INTO", "IS", "JOIN", "LATERAL", "LEFT", "LIKE", "LIMIT", "NOT", "NULL", "ON", "OR", "ORDER", "OUTER",
    "OVER", "RIGHT", "ROLLUP", "SELECT", "SETS", "SOME", "TABLE", "THEN", "UNION", "USING", "VALUES", "WHEN",
    "WHERE", "WINDOW", "WITH", "SYMMETRIC", "ASYMMETRIC", "ESCAPE", "ILIKE", "RLIKE",
})  # fmt: skip
# Calls with keyword arguments, which sqlglot reads correctly.
STOCK: Final = frozenset({"CAST", "TRY_CAST", "EXTRACT", "TRIM", "POSITION"})
# Keywords that are also functions if a bracket follows.
BOTH: Final = frozenset({"LEFT", "RIGHT"})
REFUSED: Final = {
    "MATCH_RECOGNIZE": "write the pattern as a fluent step, such as .reduce(function) on a window",
    "PIVOT": "write it as CASE WHEN inside aggregates",
    "TABLESAMPLE": "filter with a condition, such as WHERE MOD(id, 10) = 0",
}
UNITS: Final = frozenset({"MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"})
# Words that are followed by a condition.
CONDITIONS: Final = frozenset({"WHERE", "ON", "HAVING", "AND", "OR", "NOT", "WHEN"})
_NUMBER: Final = re.compile(r"[-+]?\d[\d .:-]*")
_ENDS: Final = frozenset({",", ")", "FROM", "WHERE", "GROUP BY", "HAVING", "UNION"})


@cache
def dialect() -> Any:
    """Tokens of Flink's SQL: names in backticks, a backslash is a plain character, and no word begins a raw command."""
    from sqlglot import tokens
    from sqlglot.dialects.dialect import Dialect, NormalizationStrategy
    from sqlglot.tokenizer_core import TokenType

    words = {word: kind for word, kind in tokens.Tokenizer.KEYWORDS.items() if kind is not TokenType.SESSION}

    class Streaming(Dialect):
        NORMALIZATION_STRATEGY = NormalizationStrategy.CASE_SENSITIVE
        ALIAS_POST_VERSION = True

        class Tokenizer(tokens.Tokenizer):
            IDENTIFIERS = ["`"]  # noqa: RUF012  sqlglot's form
            QUOTES = ["'"]  # noqa: RUF012
            STRING_ESCAPES = ["'"]  # noqa: RUF012
            NESTED_COMMENTS = False
            COMMANDS = set()  # noqa: RUF012
            KEYWORDS = {  # noqa: RUF012
                **words,
                "STRING": TokenType.TEXT,
                "BYTES": TokenType.VARBINARY,
                "TIMESTAMP_LTZ": TokenType.TIMESTAMPLTZ,
                "ROW": TokenType.STRUCT,
            }

    return Dialect.get_or_raise(Streaming)


def tokens_of(text: Text) -> list[Token]:
    """The tokens of all statements; SqlError for unclosed quotes and remarks, and for texts in double quotes."""
    text.check_closed()
    check_hints(text)
    if text.dialect == "spark":
        return [_spark_text(text, token) for token in _tokens(text, spark_dialect())]
    found = _tokens(text, dialect())
    for token in found:
        if token.text == '"' and token.token_type.name == "UNKNOWN":
            raise text.error(
                "double quotes are not supported",
                token,
                remedy="write texts in single quotes, 'paid', and names in backticks, `order`",
            )
    return found


def _tokens(text: Text, words: Any) -> list[Token]:
    from sqlglot.errors import TokenError

    try:
        found: list[Token] = words.tokenize(text.sql)
    except TokenError as error:
        raise text.error("the text cannot be split into tokens", 0, remedy="close quotes and remarks") from error
    for token, behind in pairwise(found):
        if token.token_type.name == "NUMBER" and behind.start == token.end + 1 and word(behind)[:1].isidentifier():
            what = f"{text.sql[token.start : behind.end + 1]!r} is neither a number nor a name"
            raise text.error(what, token, remedy="write CAST(1 AS BIGINT) for 1L, or a name that begins with a-z")
    return found


@cache
def spark_dialect() -> Any:
    """Tokens of Spark's SQL: texts in either quotes, with backslashes."""
    from sqlglot.dialects.dialect import Dialect

    streaming = type(dialect())

    # sqlglot registers dialects by class name; its own "spark" reads the steps of pipelines.
    class StreamingSpark(Dialect):
        class Tokenizer(streaming.Tokenizer):  # type: ignore[misc, name-defined]
            QUOTES = ["'", '"']  # noqa: RUF012
            NESTED_COMMENTS = True
            STRING_ESCAPES = ["'", '"', "\\"]  # noqa: RUF012
            RAW_STRINGS = [(f"{mark}{quote}", quote) for mark in "rR" for quote in "'\""]  # noqa: RUF012

    return Dialect.get_or_raise(StreamingSpark)


def _spark_text(text: Text, token: Token) -> Token:
    """A text as Spark reads it: a backslash is dropped where it has no meaning."""
    if token.token_type.name == "RAW_STRING":
        return like(token, "STRING", text.sql[token.start + 2 : token.end])
    if token.token_type.name != "STRING":
        return token
    return like(token, "STRING", _ESCAPED.sub(_unescaped, text.sql[token.start + 1 : token.end]))


def _unescaped(found: re.Match[str]) -> str:
    whole, behind = found.group(), found.group()[1:]
    if behind in ("%", "_"):
        return whole
    if behind[:1] in "uU" and len(behind) > 1:
        return chr(int(behind[1:], 16))
    if len(behind) == 3:
        return chr(int(behind, 8))
    return ESCAPES.get(behind, behind)


def parsed(text: Text, tokens: Sequence[Token]) -> Any:
    """The tree of one query or expression; SqlError with the position where parsing failed."""
    from sqlglot import parser
    from sqlglot.errors import ParseError

    if text.dialect == "spark":
        tokens = as_streaming(text, tokens)
    made = rewritten(text, tokens)
    reader = parser.Parser(dialect=dialect())
    try:
        trees = reader.parse(made, text.sql)
    except ParseError as error:
        raise _syntax_error(text, error, tokens) from error
    except RecursionError as error:
        raise text.error(TOO_DEEP, tokens[0], remedy="move parts of it into views") from error
    if len(trees) != 1 or trees[0] is None:
        raise text.error("an expression is missing", tokens[0] if tokens else 0)
    return trees[0]


def _syntax_error(text: Text, error: Any, tokens: Sequence[Token]) -> Any:
    """The error of sqlglot in terms of the statement, at the token where it stopped."""
    first = error.errors[0] if error.errors else {}
    before, near = first.get("start_context", ""), first.get("highlight", "")
    at = next((t for t in tokens if (t.line, t.col) == (first.get("line"), first.get("col"))), tokens[-1])
    known = _described(text, tokens)
    if known is not None:
        return known
    said = str(first.get("description", ""))
    if said.startswith("Expect"):
        return text.error(f"{said[0].lower()}{said[1:]}, near {near!r}", at, remedy=_brackets(tokens))
    if "missing for" in said or not first.get("end_context", "").strip():
        return text.error(f"something is missing after {near!r}", at, remedy="complete the clause, or remove it")
    return text.error(f"{near!r} is not allowed here, after {' '.join(before.split())[-20:]!r}", at)


def _described(text: Text, tokens: Sequence[Token]) -> Any:
    """Errors that sqlglot does not describe: a missing condition, and an interval without a number."""
    for place, (token, behind) in enumerate(pairwise(tokens)):
        if word(token) in CONDITIONS and word(behind) in ("AND", "OR"):
            what = f"a condition is missing between {word(token)} and {word(behind)}"
            return text.error(what, behind, remedy=f"remove {word(behind)}, or write a condition before it")
        unit = word(tokens[place + 2]).removesuffix("S") if place + 2 < len(tokens) else ""
        spelled = behind.token_type.name == "STRING" and not _NUMBER.fullmatch(behind.text)
        if word(token) == "INTERVAL" and spelled and unit in UNITS:
            return text.error(f"{behind.text!r} is not a number", behind, remedy="write it as INTERVAL '10' SECOND")
    return None


def _brackets(tokens: Sequence[Token]) -> str:
    opened = sum((word(t) == "(") - (word(t) == ")") for t in tokens)
    return f"close the bracket: {opened} more '(' than ')'" if opened > 0 else ""


def rewritten(text: Text, tokens: Sequence[Token]) -> list[Token]:
    """`tokens` rewritten for sqlglot's parser, each at its position.

    TABLE(TUMBLE(TABLE t, DESCRIPTOR(c), i)) becomes RS_TUMBLE(t, c, i), PARTITION BY after a table one more argument,
    FLOOR(ts TO HOUR) a call with two arguments, SUBSTRING(s FROM 2 FOR 3) one with three; every call gets the name
    of a function that sqlglot does not know.
    """
    return _Rewriter(text, list(tokens)).run()


class _Rewriter:
    """One pass over tokens; `calls` are the open brackets, each with the name of its call or ''."""

    def __init__(self, text: Text, tokens: list[Token]) -> None:
        self.text, self.tokens, self.at = text, tokens, 0
        self.made: list[Token] = []
        self.calls: list[str] = []

    def run(self) -> list[Token]:
        while self.at < len(self.tokens):
            self._step()
        return self.made

    def _step(self) -> None:
        token, here, behind = self.tokens[self.at], word(self.tokens[self.at]), word(self._peek())
        if here in REFUSED:
            raise self.text.error(f"{here} is not supported", token, remedy=REFUSED[here])
        if here == "," and (behind in _ENDS or self._peek() is None):
            raise self.text.error("a comma too many", token, remedy="remove it, or write what is missing after it")
        if here == "TABLE" and behind == "(":
            self._open("table function")
        elif here == "TABLE" and self.calls:
            self.at += 1
        elif here == "DESCRIPTOR" and behind == "(":
            self._open("DESCRIPTOR")
        elif here == ")" and self.calls:
            if self.calls.pop() not in ("table function", "DESCRIPTOR"):
                self.made.append(token)
            self.at += 1
        elif here == "PARTITION BY" and self.calls[-1:] == ["SESSION"]:
            self._partition(token)
        elif behind == "(" and self._is_call(token, here):
            self._call(token, here)
        else:
            self._plain(token, here, behind)

    def _plain(self, token: Token, here: str, behind: str) -> None:
        if here == "(":
            self.calls.append("")
        inside = self.calls[-1] if self.calls else ""
        if self._clause(token, here, inside):
            return
        if inside in ("FLOOR", "CEIL", "CEILING") and here == "TO" and behind in UNITS:
            self.made += [like(token, "COMMA", ","), like(self.tokens[self.at + 1], "STRING", behind)]
            self.at += 2
            return
        part = between_members(here, word(self.made[-1]), behind) if inside == "JSON_OBJECT" else ""
        if part == "key":
            self.at += 1
            return
        if part == "value" or (inside in ("SUBSTRING", "OVERLAY") and here in ("FROM", "FOR", "PLACING")):
            token = like(token, "COMMA", ",")
        self.made.append(token)
        self.at += 1

    def _clause(self, token: Token, here: str, inside: str) -> bool:
        """Whether a clause of a JSON function is here, which becomes an argument; a default ends before its ON."""
        if inside == DEFAULT and here == "ON":
            of = like(token, "STRING", word(self._peek()))
            self.made += [like(token, "COMMA", ","), of, like(token, "R_PAREN", ")")]
            self.calls.pop()
            self.at += 2
            return True
        name, words = clause_at(self.tokens[self.at : self.at + MOST_WORDS], inside)
        if name == DEFAULT:
            self.made += opening(DEFAULT, token)
            self.calls.append(DEFAULT)
        elif name:
            self.made += argument(name, self.tokens[self.at : self.at + words])
        self.at += words
        return bool(name)

    def _open(self, name: str) -> None:
        """Drops a word and its bracket, and later the closing bracket."""
        self.calls.append(name)
        self.at += 2

    def _is_call(self, token: Token, here: str) -> bool:
        if not (here[:1].isalpha() or here[:1] == "_") or here in STOCK or " " in here:
            return False
        before = word(self.made[-1]) if self.made else ""
        if before in ("AS", "WITH", ".") or (here in STRUCTURE and here not in BOTH):
            return False
        return token.token_type.name != "STRING"

    def _call(self, token: Token, here: str) -> None:
        self.made += [like(token, "VAR", CALL + here), self.tokens[self.at + 1]]
        self.calls.append(here)
        self.at += 2

    def _partition(self, token: Token) -> None:
        """`TABLE t PARTITION BY a, b, DESCRIPTOR(ts)`: the columns become a call, in brackets or not."""
        self.at += 1
        begin = self.at
        while self._peek() is not None and not self._next_argument():
            self.at += 1
        columns = self.tokens[begin : self.at + 1]
        if [word(columns[0]), word(columns[-1])] == ["(", ")"]:
            columns = columns[1:-1]
        self.made += opening(f"{CALL}PARTITION", token)
        self.made += [*columns, like(columns[-1] if columns else token, "R_PAREN", ")")]
        self.at += 1

    def _next_argument(self) -> bool:
        """Whether a comma and another argument of the window follow."""
        comma, first, second = (word(each) for each in (self.tokens[self.at + 1 : self.at + 4] + [None] * 3)[:3])
        return comma == "," and (first == "DESCRIPTOR" or second == "=>")

    def _peek(self) -> Token | None:
        return self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else None
