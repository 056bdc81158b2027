"""Words that do not come back: plain English in docs, docstrings, comments and messages.

Each row: a pattern, and what to write instead. `python -m tests.project.words rs_assets/sql docs` shows each place.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[2]
PLACES = ("rs_assets", "pipelines", "resources", "docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "FAULTS.md")

INSTEAD: Final[dict[str, str]] = {
    r"tells?|told|telling": "emit (a window), report, show, say",
    r"anew|afresh": "again, from scratch, a new ...",
    r"(?<!fall )(?<!falls )(?<!fell )(?<!lag )(?<!lags )(?<!far )behind": "downstream of, after, in the background",
    r"beside": "next to, besides, in the background, in parallel with",
    r"stands?(?! for\b)(?!-in)|stood": "is, lies, are",
    r"(?<!there )(?:is|are|was|were) (?:no|none)(?! longer)(?! more)\b": "must be one of, is not a, unknown",
    r"(?<!\|)(?<!dead )(?<!dead-)(?<!case )(?<!capital )(?<!of )letters?(?!,? digits)(?! or )": "dead letter",
    r"water marks?": "watermark",
    r"taken? back|takes back": "retract",
    r"wish(?:es|ed)?": "desired, requested",
    r"users?' own": "user-defined",
    r"nobody|somebody": "a noun: no writer, another process",
    r"let go of|lets go of": "released, removed",
    r"alike": "the same way",
    r"of old": "earlier",
    r"of (?:now|then)": "current, of that batch, recorded",
    r"hitherto|thereby|whereof|thereof": "plain words",
}
# `None` is Python's, with a capital.
PATTERN = re.compile(rf"\b(?!\w+ None)(?:{'|'.join(INSTEAD)})\b", re.IGNORECASE)
# A string of one name is a key or a file's name, and may be stored.
KEY = re.compile(r"""[rbf]*(['"])[\w./-]*\1""")
# Code in prose is not prose.
CODE = re.compile(r"```.*?```|`[^`\n]*`|^ *>>>.*$|^ *\.\.\. .*$|\{[^{}]*\}|https?://\S+", re.MULTILINE | re.DOTALL)


def prose(file: Path) -> Iterator[tuple[int, str]]:
    """Line number and text of all prose of a file: Markdown, or strings and comments of Python."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        yield 1, text
        return
    # Most files have none of the words, and parsing takes longer than a look at their text.
    if not PATTERN.search(text):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING and KEY.fullmatch(token.string):
            continue
        if token.type in {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", -1)}:
            yield token.start[0], token.string


def found(file: Path) -> Iterator[tuple[int, str, str]]:
    """Line number, word, and the text around it, of each word that should not be there."""
    for line, text in prose(file):
        plain = CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
        for match in PATTERN.finditer(plain):
            around = plain[max(0, match.start() - 40) : match.end() + 30]
            yield line + plain.count("\n", 0, match.start()), match[0], " ".join(around.split())


def files(places: tuple[str, ...] = PLACES) -> Iterator[Path]:
    """The Python and Markdown files below `places`."""
    for place in places:
        path = ROOT / place
        yield from [path] if path.is_file() else sorted([*path.rglob("*.py"), *path.rglob("*.md")])


if __name__ == "__main__":
    for path in files(tuple(sys.argv[1:]) or PLACES):
        for number, word, around in found(path):
            sys.stdout.write(f"{path.relative_to(ROOT)}:{number}: {word!r}: {around}\n")
