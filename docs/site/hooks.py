"""Hooks of the site: pages of the project's folder, and links to files that are not pages."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
# Pages of the project's folder that the site has as well.
ABOVE = ("ARCHITECTURE.md", "BENCHMARKS.md", "CHANGELOG.md", "CONTRIBUTING.md", "FAULTS.md")
# Without a file of this name the theme loads one from a host on the internet.
SHIM = "assets/iframe-worker.js"
STYLE = "assets/site.css"
LINK = re.compile(r"\[([^\]]*)\]\((?!https?://|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the project's folder to those of `docs`, and the files that offline reading needs."""
    files.append(File.generated(config, SHIM, abs_src_path=str(ROOT / "docs/site/search/iframe-worker.js")))
    files.append(File.generated(config, STYLE, abs_src_path=str(ROOT / "docs/site/site.css")))
    for name in ABOVE:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  mkdocs' signature
    """Links to files that are not pages of the site become plain text: its readers do not have these files."""
    folder = ROOT if page.file.src_uri in ABOVE else (ROOT / "docs" / page.file.src_uri).parent
    up = "../" * page.file.src_uri.count("/")

    def link(found: re.Match[str]) -> str:
        text, path, anchor = found[1], found[2], found[3] or ""
        target = (folder / path).resolve()
        for base in (ROOT / "docs", ROOT):
            if target.is_relative_to(base) and (name := target.relative_to(base).as_posix()) in files.src_uris:
                return f"[{text}]({up}{name}{anchor})"
        return text

    return LINK.sub(link, markdown)
