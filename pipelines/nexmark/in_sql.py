"""The queries in streaming SQL: a file each in `sql/`, over the tables of `sql/tables.sql`; q6 has none."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.nexmark.sources import LONGEST_AUCTION
from rs_assets import pipeline_from_sql

if TYPE_CHECKING:
    from rs_assets import Pipeline

FOLDER = Path(__file__).parent / "sql"
TABLES = FOLDER / "tables.sql"
QUERIES = tuple(sorted((path.stem for path in FOLDER.glob("q*.sql")), key=lambda name: int(name[1:])))


def nexmark_in_sql(*queries: str, folder: Path, longest_auction: timedelta = LONGEST_AUCTION) -> Pipeline:
    """The pipeline of one query, or of several, over the generator's files below `folder`."""
    files = (TABLES, *(FOLDER / f"{query}.sql" for query in queries))
    variables = {"NEXMARK": str(folder), "LONGEST": str(longest_auction.total_seconds())}
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    return pipeline_from_sql(text, namespace="nexmark_sql", job="_".join(queries), variables=variables)
