"""Commands that only show something: what they say is compared with the model."""

from __future__ import annotations

import json
from collections import Counter

from tests.torture.commands.operations import NAME, Command, Draw, Site, answer, demand
from tests.torture.commands.plain import HOUR
from tests.torture.commands.shell import Started
from tests.torture.commands.shop import letter, partition, time_of

ALL = "100000"


def letters(site: Site) -> Command:
    """The dead letters that count."""

    def done(started: Started) -> None:
        found = answer(started)
        have = sorted((letter(row),) for row in found["newest"])
        demand((found["count"], have), (len(have), site.pages.tables()["letters"]), "dead letters", started)

    return Command(("dead-letters", NAME, "--json", "--rows", ALL), site.code, done)


def partitions(site: Site) -> Command:
    """The hours with rows: how many, and whether the hour is closed."""

    def done(started: Started) -> None:
        rows = Counter(_hour(start) for _, start, _, _ in site.pages.tables()["totals"])
        want = {partition(hour): (count, hour in site.pages.closed()) for hour, count in rows.items()}
        have = {each["key"]: (each["rows"], each["closed"]) for each in answer(started)["partitions"] if each["rows"]}
        demand(have, want, "partitions", started)

    return Command(("partitions", NAME, "--json", "--last", ALL), site.code, done)


def records_of(site: Site) -> Command | None:
    """The records of a window that has taken no late ones since, and of which none was forgotten."""
    pages, windows = site.pages, site.pages.now.windows
    made = {(page, start): pages.made_of(page, start) for page, start, _, _ in pages.tables()["totals"]}
    known = [key for key in made if not made[key] & windows.forgotten and not windows.late.get(_hour(key[1]))]
    if not known:
        return None
    page, start = site.chance.choice(sorted(known))
    row = ("--row", f"page={page}", "--row", f"start_time={time_of(start):%Y-%m-%d %H:%M:%S}")

    def done(started: Started) -> None:
        have = {json.loads(each["text"])["n"] for each in answer(started)["records"]}
        demand(have, made[page, start], f"records of {page} at minute {start}", started)

    return Command(("records-of", NAME, "--sink", "totals_table", *row, "--limit", ALL, "--json"), site.code, done)


def _hour(minute: int) -> int:
    return minute // HOUR * HOUR


LOOKS: tuple[Draw, ...] = (letters, partitions, records_of)
