"""A new project, written from the templates in this package."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rs_assets.common.names import checked_name
from rs_assets.errors import ConfigurationError

TEMPLATES = Path(__file__).with_name("template")
SUFFIX = ".tmpl"
# Files that packaging tools would ignore by their real names.
HIDDEN: Mapping[str, str] = {"gitignore": ".gitignore"}
ORDERS, SEED = 300, 7
BEGIN = datetime(2026, 1, 5, 6, 0, tzinfo=UTC)


def write_project(folder: Path) -> tuple[str, ...]:
    """Write a working project into `folder`, and return its files.

    The folder is created if necessary. ConfigurationError if one of the files exists: nothing is written then; and
    if they cannot be written.
    """
    files = dict(_files(folder.absolute().name))
    there = [name for name in files if (folder / name).exists()]
    if there:
        raise ConfigurationError(
            f"{folder / there[0]} already exists", remedy="name a new folder: rs-assets init my_project"
        )
    try:
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{folder} cannot be written: {error.strerror}", remedy="name another folder: rs-assets init my_project"
        ) from error
    return tuple(files)


def namespace_of(project: str) -> str:
    """The namespace for a project's name; UserError if there is none.

    >>> namespace_of("My-Shop 2")
    'my_shop_2'
    """
    return checked_name(re.sub(r"[^a-z0-9]+", "_", project.lower()).strip("_"), what="project")


def _files(project: str) -> Iterator[tuple[str, str]]:
    words = {"{{project}}": project, "{{namespace}}": namespace_of(project)}
    for path in sorted(TEMPLATES.rglob(f"*{SUFFIX}")):
        text = path.read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(word, value)
        name = path.relative_to(TEMPLATES).as_posix().removesuffix(SUFFIX)
        yield HIDDEN.get(name, name), text
    yield "data/orders.csv", "".join(f"{line}\n" for line in orders())


def orders(count: int = ORDERS, *, seed: int = SEED) -> Iterator[str]:
    """Lines of CSV: a header, and `count` orders of a day, out of order by some minutes; two are malformed."""
    chance = random.Random(seed)  # noqa: S311  the lines must be the same every time
    yield "order_id,country,amount,status,ordered_at"
    for number in range(count):
        at = BEGIN + timedelta(minutes=4 * number - chance.randrange(8), seconds=chance.randrange(60))
        amount = "n/a" if number in (count // 3, count // 2) else f"{chance.uniform(5, 200):.2f}"
        status = chance.choice(("paid", "paid", "paid", "open", "canceled"))
        yield f"{number + 1},{chance.choice(('DE', 'FR', 'IT', 'PL'))},{amount},{status},{at:%Y-%m-%d %H:%M:%S}"
