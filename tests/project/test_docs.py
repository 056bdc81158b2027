"""The pages: every link leads to a file, or to a heading, that is there; every page is in the index."""

import re
from pathlib import Path

import pytest
import yaml

from rs_assets import errors

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)\s]+)\)")


def headings(page):
    """The anchors of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    links = LINK.findall(page.read_text())
    for path, _, anchor in (link.partition("#") for link in links):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {path}"
        assert not anchor or anchor in headings(target), f"{page.name}: {path}#{anchor}"


def test_every_page_is_in_the_index():
    index = set(LINK.findall((ROOT / "docs" / "README.md").read_text()))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - index == {"README.md"}


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
    above = {page for page in pages if not (ROOT / "docs" / page).exists()}
    assert set(pages) - above == {page.name for page in (ROOT / "docs").glob("*.md")}
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
