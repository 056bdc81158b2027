"""Reads statements from tokens: definitions are read here, queries and expressions by sqlglot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from rs_assets.sql.connectors.tables import table
from rs_assets.sql.read.cursor import Cursor
from rs_assets.sql.read.lexer import tokens_of
from rs_assets.sql.read.source import Text
from rs_assets.sql.read.statements import (
    CreateFunction,
    CreateView,
    Emit,
    Insert,
    Select,
    SetOption,
    Statement,
    Watermark,
    WatermarkClause,
    Word,
)
from rs_assets.sql.read.token import as_interval, like
from rs_assets.sql.read.trees import read_tree
from rs_assets.sql.spark.words import span, without_watermarks

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

# Statements of other dialects, and their replacements.
ELSEWHERE: Final = MappingProxyType(
    {
        "SELECT": "write its rows to a sink: INSERT INTO sink SELECT ...",
        "WITH": "write its rows to a sink: INSERT INTO sink WITH ... SELECT ...",
        "UPDATE": "INSERT INTO a table with a PRIMARY KEY: rows with the same key are replaced",
        "DELETE": "rows of a stream cannot be deleted; filter with WHERE",
        "DROP": "remove the CREATE statement instead",
        "ALTER": "change the CREATE statement instead",
        "USE": "name the pipeline: pipeline_from_sql(text, namespace='shop', job='clicks')",
        "SHOW": "run rs-assets sql FILE --explain",
        "DESCRIBE": "run rs-assets sql FILE --explain",
        "EXPLAIN": "run rs-assets sql FILE --explain",
        "ADD": "name the jar where it is used: CREATE FUNCTION f AS 'shop.Region' USING JAR '/opt/shop.jar'; of a"
        " package of Python name its function: CREATE FUNCTION f AS 'module:function'",
    }
)
# The first words of a query.
QUERIES: Final = ("SELECT", "WITH", "(")
STARTS: Final = "CREATE TABLE, CREATE VIEW, CREATE FUNCTION, INSERT INTO, SET or EXECUTE STATEMENT SET"


def statements(text: Text, *, queries: bool = False) -> tuple[Statement, ...]:
    """All statements of `text`; SqlError for the first that is not one. With `queries` a SELECT is a statement, too."""
    reader = _Reader(text, queries=queries)
    return (*reader.all(), *reader.marks)


class _Reader(Cursor):
    def __init__(self, text: Text, *, queries: bool) -> None:
        super().__init__(text, tokens_of(text))
        self.queries = queries
        self.marks: list[WatermarkClause] = []

    def all(self) -> Iterator[Statement]:
        inside = 0
        while self.peek() is not None:
            if self.take(";"):
                continue
            if self.take("EXECUTE STATEMENT SET BEGIN") or self.take("BEGIN STATEMENT SET"):
                inside = self.before
            elif inside and self.take("END"):
                inside = 0
            else:
                yield self.statement()
                if self.peek() is not None and not self.at(";"):
                    raise self.error(f"{self.shown()} is not allowed here", remedy="end the previous statement with ;")
        if inside:
            raise self.text.error("the statement set does not end", inside, remedy="write END; after its statements")

    def statement(self) -> Statement:
        for start, read in READ.items():
            if self.take(start):
                return read(self)
        if self.queries and any(self.at(start) for start in QUERIES):
            return Select(at=self.start, tree=self.query())
        remedy = ELSEWHERE.get(self.word(), f"begin with {STARTS}")
        raise self.error(f"{self.shown()} does not begin a statement", remedy=remedy)

    def create(self) -> Statement:
        for words in ("OR REPLACE", "TEMPORARY", "TEMP", "SYSTEM"):
            self.take(words)
        for kind, read in CREATED.items():
            if self.take(kind):
                self.take("IF NOT EXISTS")
                return read(self)
        raise self.error(f"{self.shown()} cannot be created", remedy="create a TABLE, a VIEW or a FUNCTION")

    def view(self) -> CreateView:
        name = self.name("the view")
        columns = self.names() if self.at("(") else ()
        if self.take("COMMENT"):
            self.string("the comment")
        self.need("AS")
        return CreateView(name=name, columns=columns, tree=self.query())

    def function(self) -> CreateFunction:
        name = self.name("the function")
        self.need("AS")
        target = self.string("what the function is")
        language = self.name("the language") if self.take("LANGUAGE") else None
        jars = tuple(self.jars()) if self.take("USING") else ()
        return CreateFunction(name=name, target=target, language=language, jars=jars)

    def jars(self) -> Iterator[Word]:
        self.need("JAR")
        yield self.string("the path of the jar")
        while self.take(","):
            self.need("JAR")
            yield self.string("the path of the jar")

    def insert(self) -> Insert:
        if self.take("OVERWRITE"):
            raise self.error("INSERT OVERWRITE is not supported for streams", remedy="write INSERT INTO")
        self.need("INTO")
        if self.text.dialect == "spark":
            self.take("TABLE")
        name = self.name("the table")
        if self.at("PARTITION"):
            raise self.error("INSERT INTO ... PARTITION is not supported", remedy="select the partition's columns")
        columns = self.names() if self.at("(") and not self.at("( SELECT") else ()
        return Insert(table=name, columns=columns, tree=self.query(), emit=tuple(self.emits()))

    def query(self) -> Any:
        tokens = self.until("EMIT")
        if not tokens:
            raise self.error("a query is missing", remedy="write SELECT ... FROM ...")
        if self.text.dialect == "spark":
            tokens = self.marked(tokens)
        return read_tree(self.text, tokens)

    def marked(self, tokens: Sequence[Token]) -> Sequence[Token]:
        """The tokens of a Spark query without its watermarks, which are stored separately."""
        left, found = without_watermarks(self.text, tokens)
        for table_name, column, interval in found:
            late = [column, like(column, "DASH", "-"), *span(self.text, interval)]
            watermark = Watermark(column=Word(column.text, column.start), expression=read_tree(self.text, late))
            self.marks.append(WatermarkClause(table=Word(table_name.text, table_name.start), watermark=watermark))
        return left

    def emits(self) -> Iterator[Emit]:
        if not self.take("EMIT"):
            return
        yield self.emit()
        while self.take(","):
            yield self.emit()

    def emit(self) -> Emit:
        at = self.start
        without = self.take("WITHOUT")
        if not without:
            self.need("WITH")
        self.need("DELAY")
        delay = None if without else read_tree(self.text, as_interval(self.until("BEFORE", "AFTER", ",")))
        side = "BEFORE" if self.take("BEFORE") else "AFTER" if self.take("AFTER") else ""
        if side:
            self.need("WATERMARK")
        return Emit(side=side, delay=delay, at=at)

    def set(self) -> SetOption:
        key = self.option_key()
        self.need("=")
        return SetOption(key=key, value=self.string("the value"))


CREATED: Final[MappingProxyType[str, Callable[[Any], Statement]]] = MappingProxyType(
    {"TABLE": table, "VIEW": _Reader.view, "FUNCTION": _Reader.function}
)
READ: Final[MappingProxyType[str, Callable[[Any], Statement]]] = MappingProxyType(
    {"CREATE": _Reader.create, "INSERT": _Reader.insert, "SET": _Reader.set}
)
