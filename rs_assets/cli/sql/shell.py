"""`rs-assets sql` without a file: an interactive session with history and completion."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from rs_assets.errors import RsError, SqlError
from rs_assets.expressions.functions.registry import FUNCTIONS
from rs_assets.sql.expressions.functions import SQL_FUNCTIONS
from rs_assets.sql.plan.session import Session
from rs_assets.sql.read.source import OPENED, Text
from rs_assets.sql.read.statements import Insert, Select

if TYPE_CHECKING:
    from rs_assets.stream.pipeline import Pipeline

PROMPT, MORE = "sql> ", "...> "
# How many records of each file a preview reads, and how many rows of it are shown.
RECORDS, SHOWN = 1_000, 20
HISTORY_LENGTH: Final = 1_000
WORDS: Final = (
    *(
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP",
        "BY",
        "HAVING",
        "JOIN",
        "LEFT",
        "ON",
        "AND",
        "OR",
        "NOT",
        "NULL",
        "AS",
        "UNION",
    ),
    *(
        "ALL",
        "DISTINCT",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "CREATE",
        "TABLE",
        "VIEW",
        "FUNCTION",
        "WITH",
        "INSERT",
    ),
    *("INTO", "SET", "WATERMARK", "FOR", "INTERVAL", "PRIMARY", "KEY", "TUMBLE", "HOP", "SESSION", "CUMULATE"),
    *("DESCRIPTOR", "PARTITION", "ORDER", "OVER", "EMIT", "DELAY", "EXISTS", "UNNEST", "LATERAL"),
    *("help", "quit", "show", "describe"),
)
# The kinds that `show` lists.
KINDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "": ("table", "view", "function"),
        "tables": ("table", "view"),
        "views": ("view",),
        "functions": ("function",),
    }
)
HELP: Final = """\
CREATE TABLE | VIEW | FUNCTION ...;   is kept until the end of the session
SET 'key' = 'value';                  is kept as well
SELECT ...;                           shows the result for the first records of the files, with all windows fired
INSERT INTO ... SELECT ...;           processes all input there is, at once
show tables; show functions;          what was created
describe NAME;                        the columns of a table or a view
quit;                                 or Ctrl-D
A statement ends with a semicolon at the end of a line, outside of quotes; docs/sql.md describes the language."""


@dataclass(slots=True)
class Shell:
    """Takes statements line by line and shows their results; `run` processes a pipeline. Errors end no session."""

    session: Session
    run: Callable[[Pipeline], Any]
    say: Callable[[str], Any] = click.echo
    waiting: list[str] = field(default_factory=list)

    @property
    def prompt(self) -> str:
        """The prompt of the next line."""
        return MORE if self.waiting else PROMPT

    def loop(self, lines: Iterable[str]) -> None:
        """Take all lines, to the end of input or `quit`."""
        for line in lines:
            if not self.take(line):
                return
        if self.waiting:
            self.say("the last statement does not end with a semicolon, so it was not run")

    def take(self, line: str) -> bool:
        """Take one more line; False if it ends the session."""
        if not self.waiting and (not line.strip() or line.strip().startswith("--")):
            return True
        self.waiting.append(line.rstrip("\n"))
        text = "\n".join(self.waiting)
        command = text.strip().rstrip(";").strip()
        if not _whole(Text(text, dialect=self.session.dialect)) and command.lower().partition(" ")[0] not in COMMANDS:
            return True
        self.waiting.clear()
        return self.do(command)

    def do(self, text: str) -> bool:
        """Execute a statement without its semicolon, or a command; False if it ends the session."""
        word, _, rest = text.partition(" ")
        try:
            if word.lower() in COMMANDS:
                return COMMANDS[word.lower()](self, rest.strip())
            self.statements(text)
        except RsError as error:
            self.say(shown(error, text))
        except KeyboardInterrupt:
            self.say("interrupted")
        return True

    def statements(self, text: str) -> None:
        """Keep, preview or run the statements in `text`."""
        found = self.session.read(text)
        if any(isinstance(each, Insert) for each in found):
            self.run(self.session.pipeline(text))
        elif len(found) == 1 and isinstance(found[0], Select):
            rows = self.session.stream(text).preview(records=RECORDS)
            self.say(table(rows))
        elif len(found) == 1:
            self.session.keep(text)
            self.say("kept")
        elif found:
            self.say("write one statement, or INSERTs together: EXECUTE STATEMENT SET BEGIN ... END;")

    def show(self, what: str) -> bool:
        """List what was created."""
        wanted = KINDS.get(what.lower())
        if wanted is None:
            self.say(f"cannot show {what!r}: show tables; show views; show functions;")
            return True
        kinds = sorted((kind, name) for name, kind in self.session.names.items() if kind in wanted)
        self.say(
            "\n".join(f"{kind:<9} {name}" for kind, name in kinds) or f"no {' and no '.join(wanted)} was created yet"
        )
        if what.lower() == "functions":
            self.say(f"{len(SQL_FUNCTIONS)} names of SQL and {len(FUNCTIONS)} of scripts: docs/functions.md")
        return True

    def describe(self, name: str) -> bool:
        """The columns of a table or a view."""
        columns = self.session.columns(name.strip("`"))
        self.say("\n".join(f"{column}  {kind}" for column, kind in columns.items()) or f"{name} is a function")
        return True

    def help(self, _: str) -> bool:
        """Show what may be written."""
        self.say(HELP)
        return True

    def completions(self, begun: str) -> list[str]:
        """Words that begin with `begun`: keywords, functions, and created names."""
        known = [*WORDS, *SQL_FUNCTIONS, *self.session.names]
        for name, kind in self.session.names.items():
            known += self.session.columns(name) if kind == "table" else ()
        return sorted({word for word in known if word.casefold().startswith(begun.casefold())})


COMMANDS: Final[dict[str, Callable[[Shell, str], bool]]] = {
    "help": Shell.help,
    "show": Shell.show,
    "describe": Shell.describe,
    "desc": Shell.describe,
    "quit": lambda shell, rest: False,  # noqa: ARG005  the table's form
    "exit": lambda shell, rest: False,  # noqa: ARG005
}


def _whole(text: Text) -> bool:
    """Whether a statement is complete; a statement set is complete after its END.

    A semicolon in a text or a comment does not end it, unless an empty line follows an unclosed one.
    """
    bare = text.bare()
    if any(sign in bare for sign in OPENED):
        *before, last = text.sql.split("\n")
        return not last.strip() and "\n".join(before).rstrip().endswith(";")
    if not bare.rstrip().endswith(";"):
        return False
    words = re.findall(r"\w+", bare.upper())
    inside = words[:4] == ["EXECUTE", "STATEMENT", "SET", "BEGIN"] or words[:3] == ["BEGIN", "STATEMENT", "SET"]
    return not inside or words.count("END") > words.count("CASE")


def shown(error: RsError, text: str) -> str:
    """An error, with a mark at its column below its line."""
    if not isinstance(error, SqlError):
        return f"{type(error).__name__}: {error}"
    lines = text.split("\n")
    remedy = f"\n  remedy: {error.remedy}" if error.remedy else ""
    if error.line > len(lines):
        return f"{error.what}{remedy}"
    return f"{lines[error.line - 1]}\n{' ' * (error.column - 1)}^ {error.what}{remedy}"


def table(rows: list[dict[str, Any]]) -> str:
    """The first rows as a table."""
    import pyarrow as pa
    from rich.console import Console

    from rs_assets.connectors.console.writer import as_table

    if not rows:
        return "no rows"
    console = Console()
    with console.capture() as captured:
        console.print(as_table(pa.Table.from_pylist(rows), title="", max_rows=SHOWN))
    return captured.get().rstrip("\n")


def interactive(session: Session, run: Callable[[Pipeline], Any]) -> None:
    """A session at a terminal, or with the lines of a pipe."""
    shell = Shell(session, run)
    if not sys.stdin.isatty():
        shell.loop(sys.stdin)
        return
    save = _with_history(shell)
    click.echo("rs-assets SQL: statements end with ; - help; shows what may be written")
    try:
        while True:
            try:
                if not shell.take(input(shell.prompt)):
                    return
            except KeyboardInterrupt:
                shell.waiting.clear()
                click.echo("")
    except EOFError:
        click.echo("")
    finally:
        save()


def _with_history(shell: Shell) -> Callable[[], None]:
    """Load the history and completion if Python has readline; returns a function that saves the history."""
    try:
        import readline
    except ImportError:
        return lambda: None
    file = Path(os.environ.get("RS_SQL_HISTORY") or Path.home() / ".rs_assets_sql_history")
    if file.is_file():
        readline.read_history_file(file)
    readline.set_history_length(HISTORY_LENGTH)
    found: list[str] = []

    def complete(begun: str, place: int) -> str | None:
        if not begun:
            # Nothing to complete: a tab, as at the beginning of pasted lines.
            if place == 0:
                readline.insert_text("\t")
            return None
        if place == 0:
            found[:] = shell.completions(begun)
        return found[place] if place < len(found) else None

    readline.set_completer(complete)
    readline.parse_and_bind("set enable-bracketed-paste on")
    readline.parse_and_bind("tab: complete")
    return lambda: readline.write_history_file(file)
