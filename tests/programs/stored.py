"""The same programs from files into Delta tables, in one run: appends, upserts, deletions, late rows.

A source is a folder with a file for each batch; for tables and processors it is one file that is followed, because rows
of a file that is read whole have no order.
"""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

from deltalake import DeltaTable

from rs_assets.common.home import Home
from rs_assets.errors import RsError
from rs_assets.runtime.options import RunOptions
from tests.programs import program as p
from tests.programs.campaign import FAILED, RIGHT, WRONG, executed, message
from tests.programs.compared import VIEWS, bag, differing
from tests.programs.oracle import Oracle, Table

FAMILIES = ("stateless", "window", "firing", "two_windows", "other_windows", "tables", "process")


def is_followed(program):
    return any(isinstance(step, p.Changes | p.Process) for step in program.steps)


def can_be_stored(program):
    """Whether files mean what pushed rows do: one source, rows that are JSON, no order, and a key for each upsert."""
    steps = {step.name: step for step in program.steps}
    modes = [mode(sink, steps[sink.of]) for sink in program.sinks]
    odd = any(kind == "odd" for source in program.sources for _, kind in source.schema)
    odd |= any(getattr(step, "by_record", False) for step in program.steps)
    return not odd and None not in modes and (is_followed(program) or len(program.sources) == 1)


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
    if sink.view == "last":
        return f', mode="upsert", keys={list(sink.keys)!r}'
    keys = list(sink.keys) or [*step.groups, *["rank"] * (step.top is not None)]
    return f', mode="upsert", keys={keys!r}, deletes="retracted"' if keys else None


def as_json(value):
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if hasattr(value, "isoformat") else value


def write(program, folder):
    """The files of its sources."""
    for source in program.sources:
        place = folder / f"{program.label}_{source.name}"
        place.mkdir()
        for number, batch in enumerate(program.batches):
            rows = [{name: as_json(value) for name, value in row.items()} for row in batch.get(source.name, ())]
            file = place / ("all.jsonl" if is_followed(program) else f"{number}.jsonl")
            with file.open("a") as lines:
                lines.writelines(f"{json.dumps(row)}\n" for row in rows)


def stored(program):
    """A program whose batches are those of its files: none is empty."""
    full = tuple(batch for batch in program.batches if any(batch.values()))
    return replace(program, batches=full)


def verdicts(programs, driver, folder):
    """What became of each program, by label, in one pipeline."""
    (folder / "in").mkdir()
    options = RunOptions(home=Home(folder / "home"), driver=driver)
    programs = [stored(program) for program in programs if can_be_stored(program)]
    for program in programs:
        write(program, folder / "in")
    try:
        pipeline = executed([(program.label, body(program, folder / "in")) for program in programs]).build()
        pipeline.run(options, finish=True)
    except RsError as error:
        return {"all": (FAILED, message(error))}
    texts = {program.label: differences(program, options.home) for program in programs}
    return {label: (WRONG, text) if text else (RIGHT, "") for label, text in texts.items()}


def rows_of(home, table):
    path = home.table("programs", table)
    return DeltaTable(path).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(str(path)) else []


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
        found.append(differing(bag(rows), bag(last), name))
    return "\n".join(filter(None, found))
