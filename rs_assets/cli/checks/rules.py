"""The rules of a pipeline: which are left out and why, and what they say to rows of a file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rs_assets.cli.base import AS_JSON, MODULES, NAME, chosen, guarded
from rs_assets.cli.checks.records import records_in
from rs_assets.common.plural import count_of
from rs_assets.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa

    from rs_assets.expressions.rules.batch import Batch
    from rs_assets.expressions.rules.rule_set import RuleSet
    from rs_assets.stream.pipeline import Pipeline
    from rs_assets.topology.nodes.match import MatchRules


@click.command()
@NAME
@click.option("--step", help="Which step, if several match rules.")
@click.option("--test", "rows", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Rows, as lines of JSON with the fields of the step's input: show the rules that hold.")  # fmt: skip
@click.option("--explain", metavar="RULE", help="With --test: each test of this rule, for each row.")
@click.option("--versions", is_flag=True, help="Which version of the rules has judged from which batch on.")
@MODULES
@AS_JSON
@guarded
def rules(
    name: str,
    step: str | None,
    rows: Path | None,
    explain: str | None,
    *,
    versions: bool,
    modules: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the rules of a pipeline, and test them with rows."""
    pipeline = chosen(modules, name)
    node = _node(pipeline, step)
    if versions:
        _used(pipeline, node, as_json=as_json)
        return
    fields = _fields(pipeline, node)
    table = _table(pipeline, node)
    if explain is not None and rows is None:
        raise ConfigurationError("--explain needs rows", remedy="give a file of rows: --test rows.jsonl")
    if rows is None:
        _listed(table, fields, node, as_json=as_json)
    elif explain is None:
        _tested(table, fields, node, rows, as_json=as_json)
    else:
        _explained(table, fields, node, rows, explain)


def _node(pipeline: Pipeline, step: str | None) -> MatchRules:
    from rs_assets.topology.nodes.match import MatchRules

    found = [node for node in pipeline.topology if isinstance(node, MatchRules) and step in (None, node.name)]
    if len(found) != 1:
        names = ", ".join(node.name for node in pipeline.topology if isinstance(node, MatchRules)) or "none"
        raise ConfigurationError(
            f"{pipeline.name} has {count_of(len(found), 'such step')}", remedy=f"--step, one of: {names}"
        )
    return found[0]


def _fields(pipeline: Pipeline, node: MatchRules) -> Mapping[str, str | None]:
    from rs_assets.expressions.rules.rule_set import counted
    from rs_assets.topology.check.build import check_fields
    from rs_assets.topology.check.rules import field_types

    known = check_fields(pipeline.topology)[node.inputs[0]]
    if not known.whole:
        remedy = "declare the schema of its sources and dimensions"
        raise ConfigurationError(f"the fields before step {node.name!r} are not known", remedy=remedy)
    types = field_types(known)
    return counted({name: types[name] for name in types if name in (node.reads or types)})


def _table(pipeline: Pipeline, node: MatchRules) -> pa.Table:
    """The rules of the program, those in the Delta table now, or of a file those that a run has loaded last."""
    import pyarrow as pa

    from rs_assets.common.home import Home
    from rs_assets.connectors.delta.rows import small_table
    from rs_assets.connectors.delta.table import open_table
    from rs_assets.expressions.rules.rule_set import rows_of
    from rs_assets.expressions.rules.spec import GivenRules
    from rs_assets.operators.dimension.spec import DeltaOrigin, LoaderOrigin
    from rs_assets.operators.dimension.versions import VersionStore, shape_of
    from rs_assets.records.ddl import arrow_schema

    schema = arrow_schema(node.dimension.schema or "")
    assert schema is not None  # rules declare theirs
    space, home = pipeline.topology.namespace, Home.default()
    match node.dimension.origin:
        case LoaderOrigin(GivenRules(rows)):
            return pa.Table.from_pylist([dict(row) for row in rows], schema)
        case DeltaOrigin(table):
            path = home.table(space, table)
            opened = open_table(path)
            there = () if opened is None else [field.name for field in opened.schema().fields]
            lacking = ", ".join(name for name in schema.names if name not in there)
            if opened is None or lacking:
                remedy = f"write the rules to {path}, in the columns {', '.join(schema.names)}"
                what = f"lacks {lacking}" if opened is not None else "is not there yet"
                raise ConfigurationError(f"the table of rules {table!r} {what}", remedy=remedy)
            return small_table(opened, path, schema.names).cast(schema)
    store = VersionStore(home.dimension(space, pipeline.topology.job, node.name))
    version = store.newest(shape_of(schema, node.keys), node.dimension.text)
    if version is None:
        remedy = f"run it once: rs-assets run {pipeline.topology.job}"
        raise ConfigurationError(f"the rules of {node.dimension.text} were never loaded", remedy=remedy)
    return rows_of(store.folder(version.name))


def _made(table: pa.Table, fields: Mapping[str, str | None], node: MatchRules) -> tuple[RuleSet, list[str]]:
    from rs_assets.expressions.rules.rule_set import RULE, rule_set_of

    made = rule_set_of(table, fields, step=node.name)
    return made, table[RULE].combine_chunks().take(made.rows).to_pylist()


def _listed(table: pa.Table, fields: Mapping[str, str | None], node: MatchRules, *, as_json: bool) -> None:
    made, names = _made(table, fields, node)
    patterns = sum(len(each.scan.patterns) for each in made.compiled.patterns)
    told = {"step": node.name, "rules": names, "left_out": dict(made.faults), "patterns": patterns,
            "slow_patterns": made.compiled.slow, "without_index": len(made.compiled.always)}  # fmt: skip
    if as_json:
        click.echo(json.dumps(told))
        return
    click.echo(f"{count_of(len(names), 'rule')}, {count_of(patterns, 'pattern')}, {made.compiled.slow} of them searched"
               f" one by one; tested for each row: {count_of(len(made.compiled.always), 'alternative')}")  # fmt: skip
    for name, why in made.faults.items():
        click.secho(f"left out: {name}", fg="red")
        click.echo(f"  {why}")


def _used(pipeline: Pipeline, node: MatchRules, *, as_json: bool) -> None:
    """The audit: batches that began with another version, newest last."""
    from rs_assets.catalog.catalog import Catalog
    from rs_assets.common.home import Home

    columns = ("generation", "query", "batch_id", "version", "rows", "loaded_at", "digest")
    found = Catalog(Home.default().catalog).rows("dimensions", pipeline=pipeline.name, step=node.name)
    told = [{name: row[name] for name in columns} for row in found]
    if as_json:
        click.echo(json.dumps(told))
        return
    for row in told:
        number = int(row["version"][1:].partition("-")[0])
        where = f"generation {row['generation']}, batch {row['batch_id']} of {row['query']}"
        click.echo(f"version {number} from {where}: {count_of(row['rows'], 'rule')}, loaded {row['loaded_at']}")
    if not told:
        click.echo("no batch has been judged yet")


def _batch(rows: Path, fields: Mapping[str, str | None]) -> tuple[list[Mapping[str, Any]], Batch]:
    from rs_assets.expressions.rules.batch import batch_of
    from rs_assets.expressions.rules.rule_set import readable
    from rs_assets.records.ddl import arrow_schema
    from rs_assets.records.rows import to_table

    fields = readable(fields)
    lines = records_in(rows)
    schema = arrow_schema(", ".join(f"`{name}` {kind}" for name, kind in fields.items()))
    assert schema is not None  # of types that rules can read
    made = to_table([{name: line.get(name) for name in fields} for line in lines], schema)
    return lines, batch_of(list(fields), [column.combine_chunks() for column in made.columns])


def _tested(table: pa.Table, fields: Mapping[str, str | None], node: MatchRules, rows: Path, *, as_json: bool) -> None:
    from rs_assets.expressions.rules.match import matches

    made, names = _made(table, fields, node)
    lines, batch = _batch(rows, fields)
    held: list[list[str]] = [[] for _ in lines]
    for row, rule in zip(*(each.tolist() for each in matches(made.compiled, batch)), strict=True):
        held[row].append(names[rule])
    times = Counter(name for each in held for name in each)
    never = [name for name in names if not times[name]]
    if as_json:
        click.echo(json.dumps({"rows": held, "never": never, "left_out": dict(made.faults)}))
        return
    for line, each in zip(lines, held, strict=True):
        click.echo(f"{json.dumps(line, ensure_ascii=False)}\n  {', '.join(each) or '-'}")
    click.echo(f"{len(never)} of {count_of(len(names), 'rule')} without a match in {count_of(len(lines), 'row')}")


def _explained(table: pa.Table, fields: Mapping[str, str | None], node: MatchRules, rows: Path, name: str) -> None:
    from rs_assets.expressions.rules.atoms import formula_of
    from rs_assets.expressions.rules.batch import Batch
    from rs_assets.expressions.rules.explain import explained
    from rs_assets.expressions.rules.normal import conjunctions_of
    from rs_assets.expressions.rules.rule_set import CONDITION, RULE
    from rs_assets.expressions.syntax.typed import WHOLE

    found = [row[CONDITION] for row in table.select([RULE, CONDITION]).to_pylist() if row[RULE] == name]
    if not found:
        raise ConfigurationError(f"there is no rule {name!r}", remedy="list them: --json")
    rule = conjunctions_of(formula_of(found[0], fields, step=node.name))
    wholes = [field for field, kind in fields.items() if kind in WHOLE]
    lines, batch = _batch(rows, fields)
    for number, line in enumerate(lines):
        click.echo(json.dumps(line, ensure_ascii=False))
        one = Batch({field: column.slice(number, 1) for field, column in batch.columns.items()}, 1)
        for place, tests in enumerate(explained(rule, one, wholes), 1):
            holds = all(met for _, met in tests)
            click.secho(f"  alternative {place} {'holds' if holds else 'does not hold'}", fg="green" if holds else None)
            for text, met in tests:
                click.echo(f"    {'yes' if met else 'no '}  {text}")
