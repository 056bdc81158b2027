"""Programs on real Spark: many in one pipeline, each judged by the oracle; a wrong one is made smaller."""

from __future__ import annotations

import linecache
import re
import time
from dataclasses import replace

from rs_assets import StreamBuilder, pipeline_from_sql
from rs_assets.errors import RsError
from rs_assets.testing import PipelineDriver
from tests.programs import timers
from tests.programs.compared import differences
from tests.programs.oracle import Oracle
from tests.programs.own import CODE
from tests.programs.program import HEAD
from tests.programs.sql_form import script

RIGHT, REFUSED, FAILED, WRONG = "right", "refused", "failed", "wrong"
# The batch whose rows dimensions have when they are loaded.
VERSION = [0]


def built(programs):
    """One pipeline of all programs, from their code."""
    return executed([(program.label, program.body()) for program in programs]).build()


def executed(bodies, job="programs"):
    """The last stream of a pipeline of several texts, each with its label."""
    # Functions of the main module are pickled by value, so workers need no such file.
    scope = {"__name__": "__main__", "VERSION": VERSION, "shop": StreamBuilder.data_stream("programs", job)}
    exec(HEAD, scope)
    exec(CODE, scope)
    exec(timers.CODE, scope)
    for label, text in bodies:
        name = f"<program {label}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), scope)
    return scope["last"]


def built_of_sql(programs, job="programs"):
    """One pipeline of all programs, from their statements."""
    return pipeline_from_sql("\n".join(map(script, programs)), namespace="programs", job=job)


def run(programs, driver, build=built):
    """The rows that each sink got, by batch and at the end of input; all programs restart after the same batch."""
    pipeline = build(programs)
    names = [name for program in programs for name in program.sink_names()]
    got, restart = {name: [] for name in names}, programs[0].restart

    def take():
        for name in names:
            got[name].append(running.take(name))

    VERSION[0], changing = 0, [name for program in programs for name in program.changing]
    with PipelineDriver(pipeline, spark=driver) as running:
        for number in range(len(programs[0].batches)):
            VERSION[0] = number
            for name in changing if number else ():
                running.reload(name)
            for program in programs:
                for source, rows in program.batches[number].items():
                    running.push(rows, f"{program.label}_{source}")
            running.step()
            take()
            if number == restart:
                running.restart()
        running.finish()
        take()
    return got


def verdicts(programs, driver, build=built):
    """What became of each program, by label: the kind and its text."""
    found, runnable = {}, []
    for program in programs:
        try:
            build([program])
            runnable.append(program)
        except RsError as error:
            found[program.label] = REFUSED, message(error)
        except Exception as error:  # noqa: BLE001  what is not refused in our words is looked for, too
            found[program.label] = FAILED, message(error)
    return found | judged(runnable, driver, build)


def judged(programs, driver, build):
    """The verdicts of programs that can be built. If a run fails, halves of them are run."""
    if not programs:
        return {}
    try:
        got = run(programs, driver, build)
    except Exception as error:  # noqa: BLE001  it is what is looked for
        if len(programs) == 1:
            return {programs[0].label: (FAILED, message(error))}
        half = len(programs) // 2
        return judged(programs[:half], driver, build) | judged(programs[half:], driver, build)
    texts = {program.label: compared(program, got) for program in programs}
    return {label: (WRONG, text) if text else (RIGHT, "") for label, text in texts.items()}


def compared(program, got):
    """What differs; a row without a field that is asked for is wrong, too."""
    try:
        return differences(program, got)
    except (KeyError, TypeError) as error:
        return f"rows of another shape: {error!r}"


def message(error):
    """The text of an error without the names of one program."""
    text = re.sub(r"\bp\d+\w*?_(\w+)", r"\1", f"{type(error).__name__}: {error}")
    return re.sub(r"\bs\d+(_\w+)?\b", "STEP", text)[:1500]


# Smaller programs.


def shrunk(program, driver, *, seconds=120, told=print):
    """A smaller program of the same verdict, as far as the time allows."""
    kind = verdicts([program], driver)[program.label][0]
    if kind not in (WRONG, FAILED):
        return program
    end = time.monotonic() + seconds
    without = replace(program, restart=None)
    if program.restart is not None and verdicts([without], driver)[program.label][0] == kind:
        program = without
    for smaller in (fewer_sinks, fewer_steps, simpler_steps, fewer_batches, fewer_rows):
        program = by_rounds(program, smaller, kind, driver, end)
        told(f"  {smaller.__name__}: {len(program.steps)} steps, {count(program)} rows")
    return replace(program, variant="")


def by_rounds(program, smaller, kind, driver, end):
    """The first of the smaller programs that keeps the verdict, again and again; eight are run together."""
    while time.monotonic() < end:
        candidates = [replace(each, variant=f"v{n}") for n, each in enumerate(smaller(program)) if sound(each)]
        for at in range(0, len(candidates), 8):
            part = candidates[at : at + 8]
            result = verdicts(part, driver)
            kept = next((each for each in part if result[each.label][0] == kind), None)
            if kept is not None:
                program = kept
                break
            if time.monotonic() > end:
                return program
        else:
            return program
    return program


def sound(program):
    """Whether the oracle can compute it: a step may lack a field that another one made."""
    try:
        oracle = Oracle(program)
        for sink in program.sinks:
            oracle.sink(sink)
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration):
        return False
    return True


def count(program):
    return sum(len(rows) for batch in program.batches for rows in batch.values())


def pruned(program):
    """Without steps and sources that no sink needs."""
    oracle = Oracle(program)
    needed = {step.name for sink in program.sinks for step in oracle.upstream(sink.of)}
    batches = tuple({name: rows for name, rows in batch.items() if name in needed} for batch in program.batches)
    return replace(program, steps=tuple(s for s in program.steps if s.name in needed), batches=batches)


def fewer_sinks(program):
    """With one of its sinks."""
    if len(program.sinks) > 1:
        yield from (pruned(replace(program, sinks=(sink,))) for sink in program.sinks)


def fewer_steps(program):
    """Without one of its steps, whose readers read what it has read."""
    for step in program.steps:
        for before in step.inputs:
            steps = tuple(each.reading(step.name, before) for each in program.steps if each is not step)
            sinks = tuple(replace(sink, of=before if sink.of == step.name else sink.of) for sink in program.sinks)
            yield pruned(replace(program, steps=steps, sinks=sinks))


# Parts of steps, and how many of them a step needs; settings, and what they are without.
PARTS = {"aggregates": 1, "own": 0, "statements": 1, "columns": 1}
PLAIN = {"late": False, "top": None, "path": None, "delay": 0, "offset": 0, "deletes": None, "rank": None}
PLAIN |= {"versions": (), "condition": None, "early": False}


def simpler_steps(program):
    """With a part of one of its steps less."""
    for place, step in enumerate(program.steps):
        before, after = program.steps[:place], program.steps[place + 1 :]
        yield from (replace(program, steps=(*before, simpler, *after)) for simpler in simpler_step(step))


def simpler_step(step):
    for name, least in PARTS.items():
        parts = getattr(step, name, ())
        if len(parts) > least:
            yield from (replace(step, **{name: (*parts[:at], *parts[at + 1 :])}) for at in range(len(parts)))
    for name, plain in PLAIN.items():
        if getattr(step, name, plain) != plain:
            yield replace(step, **{name: plain})


def fewer_batches(program):
    """With two neighbouring batches as one; the last one is empty then."""
    for at in range(1, len(program.batches)):
        one, other = program.batches[at - 1 : at + 1]
        if any(other.values()):
            both = {name: (*one.get(name, ()), *other.get(name, ())) for name in {**one, **other}}
            yield replace(program, batches=(*program.batches[: at - 1], both, *program.batches[at + 1 :], {}))


def fewer_rows(program):
    """Without half of the rows of a batch, a quarter, or one row."""
    for share in (2, 4, 1000):
        for number, batch in enumerate(program.batches):
            for name, rows in batch.items():
                size = max(1, len(rows) // share)
                for at in range(0, len(rows), size):
                    less = {**batch, name: (*rows[:at], *rows[at + size :])}
                    yield replace(program, batches=(*program.batches[:number], less, *program.batches[number + 1 :]))
