"""The parsers of lines of logs in scripts, on real Spark, against plain Python."""

from __future__ import annotations

LINES = ["a|b|c", "a||c|d", "", None, "a.b|\u0001|", "|", "only"]
PAIRS = [
    "src=10.0.0.1 dst=10.0.0.2 msg=not found here act=drop",
    "src=1 src=2",
    " src = x  y   dst=  z ",
    "no pairs",
    "src=",
    "=1 src=a=b",
    "src=a  dst==x",
    "",
    None,
    " ".join(f"k{n}=v {n}" for n in range(300)),
]


def pairs_of(line):
    """The pairs of a line, from left to right: the last word before an equals sign is the next key."""
    parts = line.split("=") if line is not None else [""]
    if len(parts) < 2:
        return {}
    found, key = {}, parts[0].strip(" ")
    for part in parts[1:-1]:
        *words, following = part.rstrip(" ").split(" ")
        found[key] = " ".join(words)
        key = following.strip(" ")
    return found | {key: parts[-1].strip(" ")}


def test_parsers_by_separators_give_the_parts_instead_of_the_line(source, compute):
    rows = compute(source("line string, b string").script("paserBySplit(line,'|',a,b,'')"), _rows(LINES, b="old"))
    parts = [(line.split("|") if line is not None else []) + [None] * 3 for line in LINES]
    wanted = [{"a": a, "b": "old" if b is None else b, "line2": c} for a, b, c, *_ in parts]
    assert [{key: row[key] for key in sorted(row)} for row in rows] == wanted
    rows = compute(
        source("line string, kind string").script(
            "if(kind=='comma'){paserByComma(line,a,b)}else{paserByAsciiSplit(line,9,a,b)}"
        ),
        [{"line": "x,y\tz", "kind": "comma"}, {"line": "x,y\tz", "kind": "tab"}],
    )
    assert [(row["line"], row["a"], row["b"]) for row in rows] == [(None, "x", "y\tz"), (None, "x,y", "z")]


def test_parser_by_a_pattern_needs_the_whole_line(source, compute):
    lines = ["GET 12", "GET 12 ", "PUT 7", None]
    rows = compute(source("line string").script("paserByRegex(line,'([A-Z]+) (1?)([0-9])',verb,one)"), _rows(lines))
    assert rows == [
        {"verb": "GET", "one": "1"},
        {"verb": None, "one": None},
        {"verb": "PUT", "one": None},
        {"verb": None, "one": None},
    ]
    rows = compute(source("line string").script("paserByRegex(line,'([A-Z]+) ([0-9]+)')"), _rows(lines[:1]))
    assert rows == [{"f1": "GET", "f2": "12"}]


def test_parser_of_pairs_is_that_of_python(source, compute):
    text = "all=parse_express(line,' ');parse_express(line,' ',src,dst,k299)"
    rows = compute(source("line string").script(text), _rows(PAIRS))
    found = [pairs_of(line) for line in PAIRS]
    assert [dict(row["all"] or {}) for row in rows] == found
    assert [(row["src"], row["dst"], row["k299"]) for row in rows] == [
        (each.get("src"), each.get("dst"), each.get("k299")) for each in found
    ]
    assert "line" not in rows[0]


def _rows(lines, **more):
    return [{"line": line, **more} for line in lines]
