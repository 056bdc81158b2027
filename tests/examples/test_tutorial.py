"""The programs of the pages that teach: each is run as it stands there, and shows what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r'^```(\w+) title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@pytest.fixture
def run(tmp_path, monkeypatch, driver):
    """Run Python of a page in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RS_HOME", str(tmp_path / ".rs"))
    names: dict = {}
    return lambda code: exec(compile(code, "page", "exec"), names) or names


def test_should_do_what_the_tutorial_says(run, tmp_path, capsys):
    (tmp_path / "data").mkdir()
    looks, shown = {}, []
    for language, title, text in BLOCK.findall((DOCS / "tutorial.md").read_text()):
        if language == "csv":
            (tmp_path / title).write_text(text)
        elif language == "text":
            run(looks[title])
            assert _rows(capsys.readouterr().out) == _rows(text)
            shown.append(title)
        elif title == "run":
            capsys.readouterr()
            run(text)
            shown.append(tuple(map(int, capsys.readouterr().out.split())))
        elif title in ("look", "letters"):
            looks[title] = text
        else:
            run(text)
    assert shown == [(6, 1, 0), "look", "letters", (3, 0, 1), "look"]


def test_should_count_visits_as_the_other_systems_do(run, driver):
    blocks = {title: text for _, title, text in BLOCK.findall((DOCS / "coming_from.md").read_text())}
    pipeline = run(blocks["rs-assets"])["pipeline"]
    visits = [("/", 1), ("/a", 9), ("/health", 3), ("/", 2), ("/", 12), ("/a", 16)]
    rows = [{"user": "u", "page": page, "ts": f"2026-01-05 10:00:{second:02d}"} for page, second in visits]
    (counted,) = pipeline.try_(rows).values()
    found = sorted((row["start_time"].second, row["page"], row["visits"]) for row in counted)
    assert found == [(0, "/", 2), (0, "/a", 1), (10, "/", 1), (10, "/a", 1)]


def _rows(text: str) -> list[list[str]]:
    """The words of each line, in any order of the lines behind the first."""
    first, *others = (line.split() for line in text.strip().splitlines())
    return [first, *sorted(others)]
