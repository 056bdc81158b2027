"""The pages: every link leads to a file, or to a heading, that is there; every page is in the index."""

import ast
import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from rs_assets import errors
from rs_assets.cli.main import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)\s]+)\)")


def headings(page):
    """The anchors of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def in_docs():
    """The pages below `docs`, by their path there."""
    return {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page):
    links = LINK.findall(page.read_text())
    for path, _, anchor in (link.partition("#") for link in links):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {path}"
        assert not anchor or anchor in headings(target), f"{page.name}: {path}#{anchor}"


def test_every_page_is_in_the_index():
    index = set(LINK.findall((DOCS / "README.md").read_text()))
    assert in_docs() - index == {"README.md"}


# Such as `rs_assets/runtime/batch/work.py` or `rs_assets/sql/plan`, in prose, tables and drawings.
MODULE = re.compile(r"\b(?:rs_assets|tests)/[\w/]*\w(?:\.\w+)?")


DESIGN = ["ARCHITECTURE.md", *sorted(page.relative_to(ROOT).as_posix() for page in DOCS.glob("design/*.md"))]


@pytest.mark.parametrize("page", DESIGN)
def test_every_file_that_a_page_of_the_design_names_is_there(page):
    """Where a page has named a folder, it names the files in it by their names alone."""
    named = set(re.findall(r"(?<![\w/*])\w+\.(?:py|scala)\b", (ROOT / page).read_text()))
    assert named - {file.name for file in (ROOT / "rs_assets").rglob("*")} == set()


# Such as `CheckpointLog.pin_partitions` and `_write_dead_letters`.
MEMBER = re.compile(r"\b[A-Z]\w*[a-z]\w*\.(?!scala\b)([a-z_]\w+)|(?<![\w/])(_[a-z]\w+)")


@pytest.mark.parametrize("page", DESIGN)
def test_every_member_that_a_page_of_the_design_names_is_there(page):
    code = "\n".join(file.read_text() for file in (ROOT / "rs_assets").rglob("*.py"))
    named = {found[1] or found[2] for found in MEMBER.finditer((ROOT / page).read_text())}
    assert named - set(re.findall(r"\w+", code)) == set()


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", *sorted(f"docs/{name}" for name in in_docs())])
def test_every_module_that_a_page_names_is_there(page):
    named = set(MODULE.findall((ROOT / page).read_text()))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_runbook_should_have_every_error():
    """Those that only group others are never raised."""
    text = (ROOT / "docs" / "runbook.md").read_text()
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.RsError)}
    groups = {kind.__name__ for kind in (errors.RsError, errors.UserError, errors.StartRefused, errors.DataError)}
    assert kinds - set(re.findall(r"`(\w+)`", text)) == groups


def test_every_page_is_in_the_site():
    """Only names are looked at: `make docs`, which looks at every link, needs more than the tests have."""
    text = (ROOT / "docs" / "site" / "mkdocs.yml").read_text()
    site = yaml.load(re.sub(r"!!python/\S+", "", text), Loader=yaml.SafeLoader)
    first, *sections = site["nav"]
    pages = [first, *(page for section in sections for pages in section.values() for page in pages)]
    assert len(pages) == len(set(pages))
    above = {page for page in pages if not (DOCS / page).exists()}
    assert set(pages) - above == in_docs()
    assert all((ROOT / page).is_file() for page in above)
    hooks = (ROOT / "docs" / "site" / "hooks.py").read_text()
    assert above == set(re.findall(r'"(\w+\.md)"', hooks))
    assert site["theme"]["font"] is False


def test_the_site_asks_no_host_and_its_code_is_not_cut():
    """The theme adds a script of another host unless one of that name is there."""
    site = (ROOT / "docs" / "site" / "mkdocs.yml").read_text()
    script, style = re.search(r"polyfills: \[(\S*iframe-worker\S*)\]", site), re.search(r"extra_css: \[(\S+)\]", site)
    hooks = (ROOT / "docs" / "site" / "hooks.py").read_text()
    assert script is not None
    assert style is not None
    assert all(f'"{found[1]}"' in hooks for found in (script, style))
    assert "white-space: pre-wrap" in (ROOT / "docs" / "site" / "site.css").read_text()
    assert "://" not in (ROOT / "docs" / "site" / "search" / "iframe-worker.js").read_text()


@pytest.mark.parametrize("word", ["split", "home", "generation", "watermark", "checkpoint", "deduplicate", "drain"])
def test_the_glossary_explains_a_word(word):
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    assert re.search(rf"^\| \*\*{word}\*\*", glossary, re.MULTILINE)


# A command is what follows the program's name up to the end of the line, the code, or a comment.
COMMAND = re.compile(r"(?<![\w./-])rs-assets +([a-z][^`#\n|;&]*)")
# Words of which a command takes one: what people replace.
SEVERAL = re.compile(r"\[.*?\]")


def commands_of_pages():
    for page in PAGES:
        text = re.sub(r"\\\n\s*", "", page.read_text())
        # In prose only what is marked as code is a command.
        blocks = re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL)
        prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        for code in (*blocks, *re.findall(r"`[^`]+`", prose)):
            yield from ((page.name, found.strip()) for found in COMMAND.findall(code))


def commands_of_code():
    """What errors and help texts tell people to type: up to the end of the sentence or its part."""
    for file in (ROOT / "rs_assets").rglob("*.py"):
        nodes = [*ast.walk(ast.parse(file.read_text()))]
        parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in (node for node in nodes if id(node) not in parts):
            for found in COMMAND.findall(text_of(node)):
                words = re.split(r"[,:()'\"]| or | and | as | of | to (?=[a-z])| shows |\.(?: |$)", found)[0].split()
                yield file.name, " ".join(word.rstrip(".") for word in words)


def text_of(node):
    """The text of a string, with a word in the place of each value of an f-string; empty for other nodes."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "VALUE" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def parsed(words):
    """Refuse options and arguments that the command does not have; values are not looked at."""
    command, name = main, words[0]
    command = main.get_command(click.Context(main), name)
    assert command is not None, f"no command {name!r}"
    _, rest, _ = command.make_parser(click.Context(command, info_name=name)).parse_args(words[1:])
    assert not rest, f"too many arguments: {rest}"


def test_every_command_in_the_pages_and_in_the_code_is_one_that_the_program_takes():
    wrong = []
    for place, line in (*commands_of_pages(), *commands_of_code()):
        words = shlex.split(SEVERAL.sub("", line))
        if "..." in words or not words:
            continue
        try:
            parsed(words)
        except (click.UsageError, AssertionError) as error:
            wrong.append(f"{place}: rs-assets {line}: {error}")
    assert wrong == []
