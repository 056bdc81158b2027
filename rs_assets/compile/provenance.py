"""Column lineage: the fields of sources and dimensions that each column is computed from, as far as known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from rs_assets.common.node import Node
from rs_assets.compile.python.fields_read import fields_read
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.nodes import Source
from rs_assets.expressions.script.bind import bound_script
from rs_assets.expressions.script.steps import Bound, Drop, Fill, Generate, Project
from rs_assets.expressions.syntax.place import LanguageError
from rs_assets.operators.join.spec import OF_BOTH
from rs_assets.operators.window.output import Ranking
from rs_assets.records.fields import UNKNOWN, declared
from rs_assets.records.fields import Fields as Known
from rs_assets.topology.check.rules import RULES as GIVEN
from rs_assets.topology.check.sql import check_sql, read_sql
from rs_assets.topology.nodes.dim_join import DimJoin
from rs_assets.topology.nodes.fold import Fold
from rs_assets.topology.nodes.join import PLACE_FIELDS, StreamJoin
from rs_assets.topology.nodes.match import RULE, MatchRules
from rs_assets.topology.nodes.process import Process, ProcessOutput, rows_of
from rs_assets.topology.nodes.rule_windows import HAVING, RuleWindows
from rs_assets.topology.nodes.step import FlatMap, Map, MapBatches, Script, SelectFields, WithFields
from rs_assets.topology.nodes.table import StreamTableJoin, TableChanges, TableGroup, TableJoin, TableTop
from rs_assets.topology.nodes.table_reduce import TableReduce
from rs_assets.topology.nodes.window import WindowAggregate
from rs_assets.topology.topology import Topology
from rs_assets.topology.user_code.expression import ColumnBuilder, PythonFunction, SqlText

# A field of a source or of the dimension of a step, by the step's name; ANY is for an unknown field.
Field = tuple[str, str]
Fields = frozenset[Field]
ANY = "*"
NOTHING: Fields = frozenset()
# For SQL that only Spark can parse: names without a bracket after them; others are functions.
_WORD = re.compile(r"`([^`]+)`|(?<![.\w])([A-Za-z_][A-Za-z0-9_]*)\b(?!\s*\()")
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


@dataclass(frozen=True, slots=True)
class Rest:
    """Columns known at the start only: those of `source`, with `prefix` before their names; None: those made by code.

    The fields `also` contribute to each of them.
    """

    source: str | None
    prefix: str = ""
    also: Fields = NOTHING

    def field(self, name: str) -> Fields:
        """The fields that the column `name` is computed from, if it is one of these; ANY is for all of them."""
        own = name if name == ANY else name.removeprefix(self.prefix)
        return self.also if self.source is None else self.also | {(self.source, own)}


@dataclass(frozen=True, slots=True)
class Columns:
    """The fields that each column is computed from. Only `named` columns exist, unless there is a `rest`."""

    named: Mapping[str, Fields] = field(default_factory=lambda: MappingProxyType({}))
    rest: frozenset[Rest] = frozenset()

    def of(self, name: str) -> Fields:
        """The fields that the column `name` is computed from, in any case as in SQL."""
        found = self.named.get(name) or next(
            (made for each, made in self.named.items() if each.casefold() == name.casefold()), None
        )
        if found is not None:
            return found
        fitting = [each for each in self.rest if name.startswith(each.prefix)]
        longest = max((len(each.prefix) for each in fitting), default=0)
        return NOTHING.union(*(each.field(name) for each in fitting if len(each.prefix) == longest))

    def every(self) -> Fields:
        """All fields that any column is computed from."""
        return NOTHING.union(*self.named.values(), *(each.field(ANY) for each in self.rest))

    def plus(self, more: Mapping[str, Fields]) -> Columns:
        """These columns, with those in `more` added or replaced."""
        new = {name.casefold() for name in more}
        kept = {name: made for name, made in self.named.items() if name.casefold() not in new}
        return Columns({**kept, **more}, self.rest)

    def prefixed(self, prefix: str) -> Columns:
        """The same columns with a prefix."""
        rest = {Rest(each.source, prefix + each.prefix, each.also) for each in self.rest}
        return Columns({prefix + name: made for name, made in self.named.items()}, frozenset(rest))


def provenance(topology: Topology, step: str) -> Columns:
    """The fields that the columns after `step` are computed from.

    Only values count: fields that decide only which rows exist (conditions, labels, the keys of groups and joins) are
    left out, but the keys of a dimension join contribute to the columns of the dimension. SQL text and scripts are
    parsed; a Python function that passes its record on may use any field of it. Rows of a dimension are fields of the
    step that looks them up.
    """
    node = topology[step]
    if isinstance(node, Source) and not node.follows:
        return _of_source(node)
    follows = node.follows
    if isinstance(node, DeltaSink) and node.late:
        # It gets the input rows of the step, not its output.
        follows = topology[node.inputs[0]].follows
    inputs = [provenance(topology, name) for name in follows]
    rule = RULES.get(type(node))
    return _united(inputs) if rule is None else rule(node, *inputs)


def fields_of(columns: Columns, name: str) -> Fields:
    """The fields that the column `name` is computed from."""
    return columns.of(name)


def _of_source(node: Source) -> Columns:
    """Each field is itself; of a source whose schema is inferred, under any name."""
    rule = GIVEN.get(type(node))
    known = UNKNOWN if rule is None else rule(node, ())
    named = {name: frozenset({(node.name, name)}) for name in known.types}
    return Columns(named, frozenset() if known.whole else frozenset({Rest(node.name)}))


def _united(inputs: Sequence[Columns]) -> Columns:
    if len(inputs) == 1:
        return inputs[0]
    names = {name: None for columns in inputs for name in columns.named}
    rest: frozenset[Rest] = frozenset().union(*(columns.rest for columns in inputs))
    return Columns({name: NOTHING.union(*(columns.of(name) for columns in inputs)) for name in names}, rest)


def _written(node: DeltaSink, *inputs: Columns) -> Columns:
    """What comes, and the column of partitions by event time."""
    written, parts = _united(inputs), node.partitions
    return written if parts is None else written.plus({parts.column: written.of(parts.field)})


def _joined(node: StreamJoin, left: Columns, right: Columns) -> Columns:
    """The columns of both sides, or of the left one where the other only filters; window times from event times."""
    both = node.how in OF_BOTH
    made = left
    if both and node.prefix is not None:
        beside = right.prefixed(node.prefix)
        made = Columns({**beside.named, **left.named}, left.rest | beside.rest)
    elif both:
        made = _merged(node, left, right)
    if node.time_fields is None or not (node.place or node.early):
        return made
    at = left.of(node.time_fields[0]) | (right.of(node.time_fields[1]) if both else NOTHING)
    return made.plus(dict.fromkeys((*(PLACE_FIELDS * bool(node.place)), *(["retracted"] * node.early)), at))


def _merged(node: StreamJoin, left: Columns, right: Columns) -> Columns:
    """A field of both sides is the right row's where there is one; keys are equal in both."""
    keys = {one for one, two in node.on if one == two}
    theirs = {name.casefold() for name in right.named}

    def made(name: str) -> Fields:
        alone = name.casefold() in theirs and name not in keys and node.how not in ("left", "full")
        return right.of(name) if alone else left.of(name) | right.of(name)

    ours = {name.casefold() for name in left.named}
    beside = {name: right.of(name) | left.of(name) for name in right.named if name.casefold() not in ours}
    return Columns({**{name: made(name) for name in left.named}, **beside}, left.rest | right.rest)


def _named(expression: object, columns: Columns) -> Fields:
    """The fields that an expression names."""
    match expression:
        case SqlText(text):
            return _in_sql(text, columns)
        case ColumnBuilder(_, text, fields) if text:
            return NOTHING.union(*(columns.of(name.split(".")[0].strip("`")) for name in fields))
        case PythonFunction(call):
            names = fields_read(call)
            return columns.every() if names is None else NOTHING.union(*map(columns.of, names))
        case _:
            return columns.every()


def _in_sql(text: str, columns: Columns) -> Fields:
    from sqlglot import exp

    tree = read_sql(text).tree
    if tree is None:
        words = {quoted or plain for quoted, plain in _WORD.findall(_STRING.sub("", text))}
        sure = {name.casefold() for name in columns.named}
        return NOTHING.union(*(columns.of(w) for w in words if w.casefold() in sure or w.lower() not in SQL_WORDS))
    if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        return columns.every()
    own = {each.name for function in tree.find_all(exp.Lambda) for each in function.expressions}
    names = {column.parts[0].name for column in tree.find_all(exp.Column)} - own
    return NOTHING.union(*map(columns.of, names))


def _selected(node: SelectFields, above: Columns) -> Columns:
    return Columns({name: above.of(name) for name in node.fields})


def _added(node: WithFields, above: Columns) -> Columns:
    return above.plus({name: _named(expression, above) for name, expression in node.columns})


def _mapped(node: Map, above: Columns) -> Columns:
    if node.function is not None:
        return _called(node, node.function, above)
    made = Columns()
    for part in node.select:
        # A part may name the result of an earlier one; a field of the record takes precedence.
        one = _listed(node, part, made.plus(above.named) if made.named else above)
        made = Columns({**made.named, **one.named}, made.rest | one.rest)
    return made


def _mapped_in_batches(node: MapBatches, above: Columns) -> Columns:
    used = _all_of(node.fields, above) if node.fields else above.every()
    return Columns(dict.fromkeys(declared(node.function.schema, step=node.name).types, used))


def _flattened(node: FlatMap, above: Columns) -> Columns:
    if isinstance(node.expression, PythonFunction):
        return _called(node, node.expression, above)
    return _listed(node, node.expression, above)


def _called(node: Node, function: PythonFunction, above: Columns) -> Columns:
    used = _named(function, above)
    return Columns(dict.fromkeys(declared(function.schema, step=node.name).types, used))


def _listed(node: Node, part: object, above: Columns) -> Columns:
    """The columns of one expression of a select list."""
    if isinstance(part, SqlText) and part.text.strip() == ANY:
        return above
    used = _named(part, above)
    if not isinstance(part, SqlText):
        return _of_any(used)
    names = check_sql(part.text, Known(dict.fromkeys(above.named), whole=False), step=node.name).fields
    return _of_any(used) if names is None else Columns(dict.fromkeys(names, used))


def _of_any(used: Fields) -> Columns:
    """Columns with unknown names, computed from the fields `used`."""
    return Columns({}, frozenset({Rest(None, also=used)}))


def _scripted(node: Script, above: Columns) -> Columns:
    if above.rest:
        return _of_any(above.every())
    try:
        bound = bound_script(node.text, dict.fromkeys(above.named), step=node.name, zone=node.zone, strict=node.strict)
    except LanguageError:
        # A statement that needs the types of its fields, which are not known here.
        return _of_any(above.every())
    return _stepped(bound, above)


def _stepped(bound: Bound, above: Columns) -> Columns:
    made = above
    for step in bound.steps:
        match step:
            case Fill(columns):
                made = made.plus({name: _in_sql(text, made) for name, text in columns})
            case Project(columns):
                made = Columns({name: _in_sql(text, made) for text, name in columns})
            case Generate(kept, generator):
                known = {name: made.of(name) for name in kept}
                new = dict.fromkeys((name for name, _ in bound.fields if name not in known), _in_sql(generator, made))
                made = Columns({**known, **new})
            case Drop(columns):
                made = Columns({name: each for name, each in made.named.items() if name not in columns}, made.rest)
    return made


def _looked_up(node: DimJoin, above: Columns) -> Columns:
    """The keys decide which row is found; where none was found, the stream's field of that name stays."""
    keys = NOTHING.union(*map(above.of, node.asked))
    names, prefix = node.dimension.names, node.prefix or ""
    same = {left for left, right in node.on if left == right and node.prefix is None}
    if names is None:
        # Any field may have been replaced.
        may = {name: made | keys | {(node.name, name)} for name, made in above.named.items() if name not in same}
        own = above if node.prefix is not None else above.plus(may)
        return Columns(own.named, own.rest | {Rest(node.name, prefix, keys)})

    def found(name: str) -> Fields:
        stays = above.of(name) if not prefix and node.how == "left" else NOTHING
        return keys | {(node.name, name)} | stays

    return above.plus({prefix + name: found(name) for name in names if name not in same})


def _judged(node: MatchRules, above: Columns) -> Columns:
    """Rules of a table may read any field, so that nothing is certain of them."""
    read = NOTHING.union(*(above.of(name) for name in node.reads or ()))
    return above.plus({name: read | {(node.name, name)} for name in node.added})


def _alerted(node: RuleWindows, above: Columns) -> Columns:
    """A rule may count by any field."""
    kept = {name: above.of(name) for name in (RULE, *node.carry, HAVING)}
    times = above.of(node.time_field) if node.time_field else NOTHING
    made = dict.fromkeys(("by", "value"), kept[HAVING])
    return Columns({**kept, **made, **dict.fromkeys(("start_time", "end_time"), times), "fire_time": NOTHING})


def _windowed(node: WindowAggregate, above: Columns) -> Columns:
    at = above.of(node.window.time_field) if node.window.time_field else NOTHING
    return Columns(
        {
            **{name: above.of(name) for name in (*node.group_by, *node.kept)},
            **{a.alias: above.of(a.field) if a.field else NOTHING for a in node.aggregates},
            **{name: _named(expression, above) for name, expression in node.own},
            **_ranked(node.ranking, above),
            **_rows(node, above),
            **dict.fromkeys(node.own_fields, at),
        }
    )


def _grouped(node: TableGroup, above: Columns) -> Columns:
    return Columns(
        {
            **{name: above.of(name) for name in node.keys},
            **{a.alias: above.of(a.field) if a.field else NOTHING for a in node.aggregates},
            **{name: _named(expression, above) for name, expression in node.own},
        }
    )


def _first(node: TableTop, above: Columns) -> Columns:
    """All rows of a group decide which of them are the first."""
    read = frozenset().union(*(above.of(name) for name, _ in node.by))
    return above.plus({node.rank: read}) if node.rank is not None else above


def _table_joined(node: TableJoin | StreamTableJoin, left: Columns, right: Columns) -> Columns:
    beside = right.prefixed(node.prefix) if node.prefix is not None else right
    # The fields of a left row that is missing are those of the right one.
    either = {one: left.of(one) | right.of(two) for one, two in node.on} if node.how == "outer" else {}
    return Columns({**beside.named, **left.named, **either}, left.rest | beside.rest)


def _changed(_node: TableChanges, above: Columns) -> Columns:
    return above.plus({"retracted": NOTHING})


def _processed(node: Process, above: Columns) -> Columns:
    return Columns(dict.fromkeys(declared(node.made, step=node.name).types, above.every()))


def _output(node: ProcessOutput, above: Columns) -> Columns:
    return Columns(dict.fromkeys(declared(node.schema, step=node.name).types, above.of(rows_of(node.output))))


def _reduced(node: TableReduce, *above: Columns) -> Columns:
    keys = {key: NOTHING.union(*(each.of(key) for each in above)) for key in node.keys}
    every = NOTHING.union(*(each.every() for each in above))
    return Columns({**dict.fromkeys(declared(node.schema, step=node.name).types, every), **keys})


def _rows(node: WindowAggregate, above: Columns) -> Mapping[str, Fields]:
    """The rows of a window, and their accumulators, for functions downstream."""
    every = [*(node.rows.columns.items() if node.rows else ()), *((a.column, a.fields) for a in node.accumulated)]
    return {column: _all_of(fields, above) if fields else above.every() for column, fields in every}


def _all_of(names: Iterable[str], above: Columns) -> Fields:
    return NOTHING.union(*map(above.of, names))


def _folded(node: Fold, above: Columns) -> Columns:
    kept = {name: made for name, made in above.named.items() if name != node.rows}
    return Columns({**kept, **dict.fromkeys(node.made, above.of(node.rows))}, above.rest)


def _ranked(ranking: Ranking | None, above: Columns) -> Mapping[str, Fields]:
    if ranking is None:
        return {}
    return {**{name: above.of(name) for name in ranking.shown}, ranking.rank: _all_of(ranking.by, above)}


RULES: Mapping[type[Node], Callable[..., Columns]] = MappingProxyType(
    {
        SelectFields: _selected,
        WithFields: _added,
        Map: _mapped,
        MapBatches: _mapped_in_batches,
        FlatMap: _flattened,
        Script: _scripted,
        WindowAggregate: _windowed,
        RuleWindows: _alerted,
        Fold: _folded,
        StreamJoin: _joined,
        DimJoin: _looked_up,
        MatchRules: _judged,
        TableGroup: _grouped,
        TableTop: _first,
        TableJoin: _table_joined,
        StreamTableJoin: _table_joined,
        TableChanges: _changed,
        Process: _processed,
        ProcessOutput: _output,
        TableReduce: _reduced,
        DeltaSink: _written,
    }
)
# SQL keywords that are not fields, where they are unquoted in an expression.
SQL_WORDS = frozenset(
    (
        *("and", "or", "not", "null", "true", "false", "is", "in", "like", "rlike", "between", "case", "when", "then"),
        *("else", "end", "cast", "as", "interval", "timestamp", "date", "string", "int", "bigint", "double", "boolean"),
    )
)
