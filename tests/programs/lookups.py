"""Steps that read values of their own beside a row: intervals, networks, rules, and functions of Arrow batches.

Each has its code as a user would write it, and its meaning in plain Python, by docs/dimensions.md and docs/rules.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv6Address, IPv6Network, ip_address, ip_network

from tests.programs import program as p
from tests.programs.meaning import value
from tests.programs.values import NETWORKS, Items

# The ends of an interval that is open there: as far as 64 bits go.
LEAST, GREATEST = -(2**63), 2**63 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAPPED = IPv6Network("::ffff:0:0/96")


@dataclass(frozen=True)
class Contained(p.Step):
    """Each row with the rows of a dimension whose interval or network contains `field`; of equal `on`, if given.

    `rows` are key, low and high (or the network alone) and a label; times are seconds of the program.
    """

    of: str
    field: str
    kind: str
    on: str | None
    how: str
    closed: bool
    rows: tuple[tuple, ...]

    @property
    def schema(self):
        """The fields of the dimension, without a prefix."""
        ends = (("net", "string"),) if self.kind == "ip" else (("low", self.kind), ("high", self.kind))
        return (("key", "string"), *ends, ("label", "string"))

    def code(self, label):
        names = [name for name, _ in self.schema]
        rows = ", ".join(p.shown(dict(zip(names, row, strict=True))) for row in self.rows)
        loaded = f'Dimension.from_loader(lambda: [{rows}], schema="{p.ddl(self.schema)}", may_be_empty=True)'
        key = 'Network("net")' if self.kind == "ip" else f'Range("low", "high", closed={self.closed})'
        on = f'"{self.on}": "key", ' if self.on else ""
        return (
            f'{self.of}.dim_join({loaded}, on={{{on}"{self.field}": {key}}}, how="{self.how}", prefix="d_", '
            f'name="{label}")'
        )

    def of_row(self, row):
        """The rows of a row."""
        found = [each for each in self.rows if self._may(row, each)]
        near = self._networks(row, found) if self.kind == "ip" else self._intervals(row, found)
        none = [(None,) * len(self.schema)] if self.how == "left" else []
        names = [f"d_{name}" for name, _ in self.schema]
        return [row | dict(zip(names, each, strict=True)) for each in near or none]

    def _may(self, row, each):
        return self.on is None or (row[self.on] not in (None, "") and row[self.on] == each[0])

    def _intervals(self, row, rows):
        """Those of the narrowest interval; of equally wide ones those of the one that begins last."""
        at, found = position(row[self.field]), []
        for each in rows:
            low, high = position(each[1], LEAST), position(each[2], GREATEST)
            inside = at is not None and low <= at and (at <= high if self.closed or each[2] is None else at < high)
            found += [((high - low, -low), each)] * inside
        least = min((width for width, _ in found), default=None)
        return [each for width, each in found if width == least]

    def _networks(self, row, rows):
        """Those of the longest prefix."""
        address = address_of(row[self.field])
        nets = [(network_of(each[1]), each) for each in rows]
        found = [
            (net.prefixlen, each)
            for net, each in nets
            if net is not None and address is not None and net.version == address.version and address in net
        ]
        longest = max((length for length, _ in found), default=None)
        return [each for length, each in found if length == longest]


def position(at, open_end=None):
    """A number or a time as a number; `open_end` for null."""
    if at is None:
        return open_end
    return (at - EPOCH) // timedelta(microseconds=1) if isinstance(at, datetime) else at


def address_of(text):
    """An address, of IPv4 if it is one in the clothes of IPv6; None for any other text."""
    try:
        found = None if text is None or "%" in text else ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


def network_of(text):
    """A network, without the bits beyond its prefix; None for any other text."""
    if text is None or "%" in text or (not text.rpartition("/")[2].isdigit() and "/" in text):
        return None
    try:
        found = ip_network(text, strict=False)
    except ValueError:
        return None
    if isinstance(found, IPv6Network) and found.subnet_of(MAPPED):
        return ip_network((found.network_address.ipv4_mapped, found.prefixlen - 96))
    return found


@dataclass(frozen=True)
class Judged(p.Step):
    """Each row with the names of the rules that hold; `rules` are names, conditions, priorities and whether enabled."""

    of: str
    form: str
    rules: tuple[tuple[str, object, int | None, bool], ...]

    @property
    def schema(self):
        """The fields that it adds."""
        if self.form == "per_match":
            return (("rule", "string"), ("priority", "int"), ("rule_version", "bigint"))
        return (("rules", "array<string>"), ("rules_version", "bigint"))

    def code(self, label):
        rows = [
            {"rule": name, "condition": condition.text(), "priority": priority, "enabled": enabled}
            for name, condition, priority, enabled in self.rules
        ]
        carry = ', carry=["priority"]' * (self.form == "per_match")
        return f'{self.of}.match(Rules.of({rows!r}), form="{self.form}"{carry}, name="{label}")'

    def of_row(self, row):
        """The rows of a row."""
        rules = sorted(self.rules, key=lambda rule: (rule[2] is None, rule[2] or 0, rule[0]))
        found = [rule for rule in rules if rule[3] and value(rule[1], row) is True]
        if self.form == "per_match":
            return [row | {"rule": name, "priority": priority, "rule_version": 1} for name, _, priority, _ in found]
        if not found and self.form == "matched":
            return []
        return [row | {"rules": Items(rule[0] for rule in found), "rules_version": 1}]


@dataclass(frozen=True)
class Batches(p.Step):
    """The fields `kept` and `made`, which is `field` times `factor`, by a function of Arrow batches."""

    of: str
    kept: tuple[tuple[str, str], ...]
    field: str
    made: str
    factor: int

    def code(self, label):
        kept = ", ".join(f'"{name}": b["{name}"]' for name, _ in self.kept)
        schema = p.ddl((*self.kept, (self.made, "bigint")))
        fields = [*dict.fromkeys([*(name for name, _ in self.kept), self.field])]
        function = f'lambda b: {{{kept}, "{self.made}": pc.multiply(b["{self.field}"], {self.factor})}}'
        return f'{self.of}.map_batches({function}, schema="{schema}", fields={fields!r}, name="{label}")'

    def of_row(self, row):
        """The row of a row."""
        of = row[self.field]
        return [{name: row[name] for name, _ in self.kept} | {self.made: None if of is None else of * self.factor}]


# What is drawn.


def contained(d, name, kept):
    """Rows looked up by an interval or a network."""
    fields = d.fields(name)
    there = d.named(name, "bigint", "ip", "timestamp")
    if not there or any(field.startswith("d_") for field in fields):
        return name
    field = d.rng.choice(there)
    kind = fields[field]
    on = "key" if "key" in fields and d.chance(0.5) else None
    rows = tuple(entry(d, kind, place) for place in range(d.pick(1, 3, 6)))
    return d.add(Contained, name, field, kind, on, d.pick("inner", "left"), d.chance(0.3), rows)


def entry(d, kind, place):
    """A row of a dimension."""
    key, label = d.pick("a", "a", "b", "c", "", None), f"row {place}"
    if kind == "ip":
        return key, d.rng.choice(NETWORKS), label
    low, width = d.rng.randrange(-4, 8), d.pick(0, 1, 3, 3, 20)
    ends = (low, low + width) if kind == "bigint" else (p.at(5 * low), p.at(5 * (low + width)))
    low, high = (None if d.chance(0.15) else end for end in ends)
    return key, low, high, label


def judged(d, name, kept):
    """Rows judged by rules."""
    fields = d.fields(name)
    if {"rules", "rule", "rules_version", "rule_version"} & set(fields) or not d.named(name, "bigint", "string"):
        return name
    names = d.rng.sample(["one", "Two", "3", "é", "Zwei"], d.pick(1, 2, 4))
    # The first one has a priority, so that the rules have that column.
    rules = tuple(
        (each, d.condition(name, "text"), d.pick(None, 1, 1, 2) if place else 1, d.chance(0.9))
        for place, each in enumerate(names)
    )
    form = d.pick("matched", "all") if "priority" in fields else d.pick("matched", "all", "per_match")
    return d.add(Judged, name, form, rules)


def in_arrow(d, name, kept):
    """Rows by a function of Arrow batches."""
    fields = d.fields(name)
    there = d.named(name, "bigint")
    left = tuple((field, kind) for field, kind in fields.items() if field in kept or d.chance(0.3))
    return d.add(Batches, name, left, d.rng.choice(there), d.new(), d.pick(2, -1)) if there and left else name


STEPS = (contained, judged, in_arrow)
