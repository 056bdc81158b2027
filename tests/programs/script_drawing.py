"""Scripts drawn from a seed."""

from __future__ import annotations

from tests.programs import scripts as s


def named(fields, *kinds):
    """The names of the fields of some types."""
    return [name for name, kind in fields.items() if kind in kinds]


def statements(d, fields, kept):
    """One to three statements for records with these fields, which leave those called `kept`."""
    made = []
    for _ in range(d.pick(1, 2, 3)):
        draw = d.pick(assignment, assignment, branch, branch, arrangement)
        made += draw(d, s.fields_of(made, fields), kept)
    return tuple(made)


def call(d, fields):
    """A call and its type; numbers are those of Java's int."""
    texts, whole, calls = named(fields, "string"), named(fields, "bigint"), []
    if texts:
        text = d.rng.choice(texts)
        calls += [(s.Called(name, text), "string") for name in ("lower", "upper", "reverse")]
        calls += [(s.Called("concat", text, "_s"), "string"), (s.Called("coalesce", text, "none"), "string")]
        calls += [(s.Called("length", text), "int"), (s.Copied(text), "string")]
    if whole:
        number = d.rng.choice(whole)
        calls += [(s.Called(name, number, d.pick(1, 2, 3)), "int") for name in ("add", "minus", "multiply")]
    return d.rng.choice(calls) if calls else (s.Given("s"), "string")


def assignment(d, fields, kept):
    """A field of a call; a text may replace one that was there."""
    value, kind = call(d, fields)
    if kind == "string" and "key" in fields and d.chance(0.3):
        return [s.Set("key", value, kind)]
    return [s.Set(d.new("s"), value, kind)]


def test(d, fields, depth):
    """A condition, of which none is null."""
    draws = d.rng.random()
    if depth and draws < 0.35:
        return s.Joint(d.pick("&", "|"), test(d, fields, 0), test(d, fields, 0))
    if depth and draws < 0.45:
        return s.Not(test(d, fields, 0))
    texts, whole = named(fields, "string"), named(fields, "bigint")
    name = d.rng.choice([*texts, *whole])
    if d.chance(0.2):
        return s.Holds(name, d.pick("==", "!="), None)
    constant = d.pick("a", "b", "c") if name in texts else d.pick(0, 1, 3, 7)
    return s.Holds(name, d.pick("==", "!=", "<", "<=", ">", ">="), constant)


def branch(d, fields, kept):
    """An `if` that sets a new text, or drops records."""
    if not named(fields, "string", "bigint"):
        return []
    condition = test(d, fields, 1)
    if d.chance(0.25):
        return [s.If(condition, (s.Drop(),))]
    name = d.new("s")
    then = s.Set(name, s.Given("yes"), "string")
    others = [(), (s.Set(name, s.Given("no"), "string"),), (s.Drop(),)]
    return [s.If(condition, (then,), d.rng.choice(others))]


def arrangement(d, fields, kept):
    """A field that is renamed, or left out."""
    free = [name for name in fields if name not in kept]
    if not free:
        return []
    name = d.rng.choice(free)
    return [s.Rename(d.new("s"), name)] if d.chance(0.5) else [s.Remove(name)]
