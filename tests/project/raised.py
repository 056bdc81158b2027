"""Which of the remedies of a file some programs print: for the languages, whose remedies are kept by file."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType

import pytest

from rs_assets.errors import RsError
from tests.project.remedies import ROOT, table

PACKAGE = ROOT / "rs_assets"
# The remedy of an error that another file has made.
PASSED_ON = "error.remedy"


def unraised(test: str, programs: Iterable[Callable[[], object]]) -> list[str]:
    """The remedies that `test` is said to follow and that no program prints: `file:line remedy`."""
    rows = [row.split("\t") for row, by in table().items() if by == test]
    raised = _raised(programs)
    return [each for place, remedy in rows for each in _unraised(*place.split("::"), remedy, raised)]


def _unraised(file: str, place: str, remedy: str, raised: set[tuple[str, int]]) -> list[str]:
    """Those of one row: of a whole file, or one by its source."""
    spans = [span for span in _spans(PACKAGE / file) if span[2] == remedy or (place == "*" and span[2] != PASSED_ON)]
    left = [
        f"{file}:{first} {text}"
        for first, last, text in spans
        if not any(name == file and first <= line <= last for name, line in raised)
    ]
    return left if place == "*" or len(left) == len(spans) else []


def _spans(file: Path) -> Iterator[tuple[int, int, str]]:
    """The first and last line of each call with a remedy, and the remedy's source."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            for remedy in (keyword.value for keyword in node.keywords if keyword.arg == "remedy"):
                yield node.lineno, node.end_lineno or node.lineno, " ".join(ast.unparse(remedy).split())


def _raised(programs: Iterable[Callable[[], object]]) -> set[tuple[str, int]]:
    """The files and lines that were under way when an error was made."""
    lines: set[tuple[str, int]] = set()
    real = RsError.__init__

    def made(error: RsError, what: str, **named: object) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename.startswith(str(PACKAGE)):
                lines.add((str(Path(frame.f_code.co_filename).relative_to(PACKAGE)), frame.f_lineno))
            frame = frame.f_back
        real(error, what, **named)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RsError, "__init__", made)
        for program in programs:
            with suppress(RsError):
                program()
    return lines
