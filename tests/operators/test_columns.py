"""Columns that were written before Spark runs, by rs_assets.F, compute what SQL computes."""

from rs_assets import F

SCHEMA = "page string, ms bigint, items array<int>"
ROWS = [
    {"page": "/a", "ms": 5, "items": [1, 2]},
    {"page": "/b", "ms": 50, "items": []},
    {"page": None, "ms": 500, "items": None},
    {"page": "/c", "ms": -3, "items": [7]},
]
BOTH = {
    "more": (F.col("ms") * 2 + 1 - F.lit(3), "ms * 2 + 1 - 3"),
    "less": (10 - F.col("ms") / 4, "10 - ms / 4"),
    "kind": (
        F.when((F.col("ms") > 100) | F.col("page").isNull(), "odd")
        .when(~(F.col("ms") >= 0), F.upper("page"))
        .otherwise("x"),
        "case when ms > 100 or page is null then 'odd' when not ms >= 0 then upper(page) else 'x' end",
    ),
    "parts": (F.transform("items", lambda item: item * F.col("ms") + F.lit(1)), "transform(items, i -> i * ms + 1)"),
    "first": (F.get(F.col("items"), F.lit(0)).cast("string"), "cast(get(items, 0) as string)"),
    "all": (F.concat_ws("-", F.col("page"), F.col("ms").cast("string")), "concat_ws('-', page, cast(ms as string))"),
    "any": (F.coalesce(*[F.col("page"), F.lit("none")]), "coalesce(page, 'none')"),
}


def test_columns_compute_what_sql_does(source, compute):
    columns = {name: column for name, (column, _) in BOTH.items()}
    texts = {f"{name}_2": text for name, (_, text) in BOTH.items()}
    wanted = F.col("ms") > -1
    rows = compute(source(SCHEMA).with_fields(**columns, **texts).filter(wanted & (F.col("ms") < 1000)), ROWS)
    assert len(rows) == 3
    assert [[row[name] for name in BOTH] for row in rows] == [[row[f"{name}_2"] for name in BOTH] for row in rows]
