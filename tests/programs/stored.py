"""The same programs from files into Delta tables, in one run: appends, upserts, deletions, late rows.

A source is a folder with a file for each batch; for tables and processors it is one file that is followed, because rows
of a file that is read whole have no order.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal

from deltalake import DeltaTable

from rs_assets.common.home import Home
from rs_assets.errors import RsError
from rs_assets.runtime.options import RunOptions
from tests.programs import program as p
from tests.programs.campaign import FAILED, RIGHT, WRONG, executed, message
from tests.programs.compared import VIEWS, bag, differing, plain
from tests.programs.oracle import Oracle, Table
from tests.programs.values import ODDER

FAMILIES = ("stateless", "window", "calendar", "firing", "two_windows", "other_windows", "tables", "process")
LATER = (*FAMILIES, "versions", "versions", "table_chains")


def families(seed):
    """The families that can be stored."""
    return LATER if seed >= ODDER else FAMILIES


def is_followed(program):
    return any(isinstance(step, p.Changes | p.Process) for step in program.steps)


def why_not(program):
    """Why files do not mean what pushed rows do; empty if they do."""
    steps = {step.name: step for step in program.steps}
    if any(kind == "odd" for source in program.sources for _, kind in source.schema):
        return "a number that JSON has no text for"
    if any(getattr(step, "by_record", False) for step in program.steps):
        return "an order of records, which whole files do not have"
    if None in [mode(sink, steps[sink.of]) for sink in program.sinks]:
        return "rows that are replaced and have no key"
    if program.changing:
        return "a dimension that changes with each batch"
    if not is_followed(program) and len(program.sources) > 1:
        return "several sources, of which a batch has a file each in no order"
    return ""


def body(program, folder):
    """The steps over files, and into tables."""
    steps = {step.name: step for step in program.steps}
    tabled, lines = is_followed(program), []
    for step in program.steps:
        label = f"{program.label}_{step.name}"
        if isinstance(step, p.Source):
            file, more = ("all", "tail=True") if tabled else ("*", "max_files_per_batch=1")
            path = f'"{folder}/{label}/{file}.jsonl", schema="{p.ddl(step.schema)}", {more}'
            lines.append(f'{step.name} = shop.from_file({path}, bad_records="skip", name="{label}")')
        elif not isinstance(step, p.Changes):
            lines.append(f"{step.name} = {step.code(label)}")
    for place, sink in enumerate(program.sinks):
        out, of = f"{program.label}_out{place}", steps[sink.of]
        stream = of.of if isinstance(of, p.Changes) else of.name
        lines.append(f'last = {stream}.to_delta("{out}"{mode(sink, of)}, name="{out}")')
    return "\n".join(lines)


def mode(sink, step):
    """How a sink writes."""
    if isinstance(step, p.Changes) or sink.view in ("append", "deltas"):
        return ""
    if sink.view in ("upsert", "history"):
        order = 'order_by=["ts", "id"]' if sink.view == "upsert" else 'time_field="ts", order_by=["id"], deletes="gone"'
        return f', mode="{sink.view}", keys={list(sink.keys)!r}, {order}'
    if sink.view == "last":
        return f', mode="upsert", keys={list(sink.keys)!r}'
    keys = list(sink.keys) or [*step.groups, *["rank"] * (step.top is not None)]
    return f', mode="upsert", keys={keys!r}, deletes="retracted"' if keys else None


def as_json(value):
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if hasattr(value, "isoformat") else value


def write(program, folder, number):
    """The files of one batch of its sources; followed ones grow."""
    if number >= len(program.batches):
        return
    for source in program.sources:
        place = folder / f"{program.label}_{source.name}"
        place.mkdir(parents=True, exist_ok=True)
        batch = program.batches[number].get(source.name, ())
        rows = [{name: as_json(value) for name, value in row.items()} for row in batch]
        file = place / ("all.jsonl" if is_followed(program) else f"{number}.jsonl")
        with file.open("a") as lines:
            lines.writelines(f"{json.dumps(row)}\n" for row in rows)


def pipeline(programs, folder):
    """One pipeline of all programs over the files in a folder."""
    return executed([(program.label, body(program, folder)) for program in programs]).build()


def stored(program):
    """A program whose batches are those of its files: none is empty."""
    full = tuple(batch for batch in program.batches if any(batch.values()))
    return replace(program, batches=full)


def verdicts(programs, driver, folder):
    """What became of each program, by label, in one pipeline and one run."""
    options, inputs = RunOptions(home=Home(folder / "home"), driver=driver), folder / "in"
    programs = [stored(program) for program in programs if not why_not(program)]
    for program in programs:
        for number in range(len(program.batches)):
            write(program, inputs, number)
    try:
        pipeline(programs, inputs).run(options, finish=True)
    except RsError as error:
        return {"all": (FAILED, message(error))}
    return judged(programs, options.home)


def judged(programs, home):
    """The verdict of each program over the tables of a home."""
    texts = {program.label: differences(program, home) for program in programs}
    return {label: (WRONG, text) if text else (RIGHT, "") for label, text in texts.items()}


def rows_of(home, table):
    path = home.table("programs", table)
    return (
        DeltaTable(path).to_pyarrow_table().to_pylist(maps_as_pydicts="strict")
        if DeltaTable.is_deltatable(str(path))
        else []
    )


def by_key(sink, rows):
    """The rows of each key by time, of one time by id."""
    found = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["ts"], row["id"])):
        found[plain([row[name] for name in sink.keys])].append(row)
    return found.values()


def newest(sink, rows):
    """The rows of an upsert."""
    return [of[-1] for of in by_key(sink, rows)]


def versions(sink, rows):
    """The rows of a history: each is valid until the next one of its key, of which some only end the one before."""
    made = []
    for of in by_key(sink, rows):
        last = [*{row["ts"]: row for row in of}.values()]
        for row, following in zip(last, [*last[1:], None], strict=True):
            until = following["ts"] if following else None
            times = {"valid_from": row["ts"], "valid_to": until, "current": until is None}
            made += [row | times] if row["gone"] is not True else []
    return made


def differences(program, home):
    """What the tables of a program should not have, or lack."""
    oracle, found = Oracle(program), []
    for name, of in program.sink_names().items():
        rows = rows_of(home, name)
        if not isinstance(of, p.Sink):
            found.append(differing(bag(rows), bag(oracle.late[of.name]), f"{name}: late rows"))
            continue
        want = oracle.sink(of)
        if of.view == "deltas":
            found.append(VIEWS["deltas"](of, [rows], want))
            continue
        last = want.after[-1] if isinstance(want, Table) else [row for _, row in want]
        last = {"upsert": newest, "history": versions}.get(of.view, lambda sink, rows: rows)(of, last)
        found.append(differing(bag(rows), bag(last), name))
    return "\n".join(filter(None, found))
