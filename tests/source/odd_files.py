"""Files as other programs write them, and as they break, made by a seed; and what plain Python finds in them."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from itertools import accumulate, pairwise
from random import Random
from typing import Any, Final

import pyarrow as pa

BOM: Final = b"\xef\xbb\xbf"
BLANK: Final = " \t\r\n\v\f"
# The fields of the CSV files, with texts for them, good and bad.
KINDS: Final[Mapping[str, str]] = {
    "s": "string", "l": "bigint", "y": "tinyint", "d": "double", "f": "float", "c": "decimal(9,2)", "b": "boolean",
    "t": "timestamp_ntz", "day": "date",
}  # fmt: skip
WHOLE: Final = ("0", "7", "-7", "+7", "007", "127", "-128", "128", "9223372036854775807", "9223372036854775808", "--1",
                "1_0", "1e3", "1,234", "٣", "x", "1.0", "0x1", "1 0")  # fmt: skip
REAL: Final = ("0.5", "-1e3", ".5", "5.", "+2", "1e400", "-1e39", "NaN", "Infinity", "-Infinity", "1,5", "1.2.3", "e5",
               "-", "1e-400", "9007199254740993", "1'000", "12 %", "5-")  # fmt: skip
TEXTS: Final = ("", "a", "a b", " a ", 'say "hi"', '"', '""', "a,b", "a;b", "a\\", "\\N", "null", "é", "😀", "#x", "//",
                "a\u2028b", "a\x85b", "a\x0bb", "a\x00b", "'", "=1+1")  # fmt: skip
POOLS: Final[Mapping[str, Sequence[str]]] = {
    "s": TEXTS, "l": WHOLE, "y": WHOLE, "d": REAL, "f": REAL,
    "c": ("1.25", "1.005", "-1234567.89", "12345678.9", *REAL),
    "b": ("true", "false", "True", "TRUE", "yes", "1", "t"),
    "t": ("2024-02-29T10:00:00", "2024-02-29 10:00:00.123456", "2023-02-29T10:00:00", "10000-01-01T00:00:00", "noon"),
    "day": ("2024-02-29", "1900-02-29", "1969-12-31", "0001-01-01", "0000-01-01", "29.02.2024", "today"),
}  # fmt: skip


def csv_file(dice: Random, rows: int, delimiter: str) -> bytes:
    """A file of CSV with the fields of KINDS; in half of them some bytes are changed, removed, or come twice."""
    order = dice.sample(sorted(KINDS), len(KINDS)) if dice.random() < 0.3 else list(KINDS)
    names = [*order, "other"] if dice.random() < 0.2 else order
    quoting = dice.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    ending = dice.choice(["\n", "\n", "\r\n"])
    out = io.StringIO()
    writer = csv.writer(out, quoting=quoting, lineterminator=ending, delimiter=delimiter)
    good = dice.random() < 0.6
    writer.writerow(names)
    for _ in range(rows):
        record = [_cell(dice, name, good=good) for name in names]
        writer.writerow(record[:-1] if dice.random() < 0.02 else record)
    made = out.getvalue().encode()
    made = made[: -len(ending)] if dice.random() < 0.3 else made
    head = made.index(b"\n") + 1
    body = made[head:] if dice.random() < 0.5 else _mutated(dice, made[head:])
    return (BOM if dice.random() < 0.2 else b"") + made[:head] + body


def _cell(dice: Random, name: str, *, good: bool) -> str:
    if dice.random() < 0.15:
        return ""
    pool = POOLS.get(name, TEXTS)
    return pool[0] if good and name != "s" else dice.choice(pool)


def _mutated(dice: Random, body: bytes) -> bytes:
    made = bytearray(body)
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(made) or 1)
        what = dice.randrange(3)
        if what == 0:
            made[at : at + 1] = b""
        elif what == 1:
            made[at:at] = made[at : at + 1]
        else:
            made[at : at + 1] = dice.choice([b'"', b",", b"\n", b"\r\n", b"\xff", b"\x00", b" ", b"-", b"9", b"\xc3"])
    return bytes(made)


@dataclass(frozen=True)
class Line:
    """What plain Python finds in a line: its values by name, or None; `sure` if no other reading is possible."""

    values: Mapping[str, Any] | None
    sure: bool = True


def csv_lines(content: bytes, delimiter: str) -> dict[int, Line]:
    """The lines of a file of CSV by number, without its header and blank ones."""
    lines = content.removeprefix(BOM).split(b"\n")
    names = next(csv.reader([lines[0].decode().removesuffix("\r")], delimiter=delimiter))
    found: dict[int, Line] = {}
    opened = False
    for number, raw in enumerate(lines[1:], start=2):
        try:
            # Without a newline a carriage return is part of the last value.
            text = raw.decode() if number == len(lines) and raw != b"\r" else raw.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            found[number] = Line(None)
            opened = opened or raw.count(b'"') % 2 == 1
            continue
        if not text.strip(BLANK):
            continue
        odd = text.count('"') % 2 == 1
        bad = odd or ("\0" in text and '"' in text)
        found[number] = Line(None) if bad else _line(text, names, delimiter, sure=not opened)
        opened = opened or odd
    return found


def _line(text: str, names: Sequence[str], delimiter: str, *, sure: bool) -> Line:
    if "\r" in text:
        return Line(None, sure=False)
    record = next(csv.reader([text], delimiter=delimiter, quotechar='"'))
    # What follows a closing quote has no one meaning.
    after = re.search(r'(^|[,;])"(?:[^"]|"")*"[^,;"]', text)
    sure = sure and not after
    if len(record) != len(names):
        return Line(None, sure)
    values, refused = {}, False
    for name, cell in zip(names, record, strict=True):
        if name in KINDS:
            good, values[name] = value_of(name, cell)
            refused = refused or good is False
            sure = sure and good is not None
    return Line(None if refused else values, sure)


def value_of(name: str, cell: str) -> tuple[bool | None, Any]:
    """Whether a text is a value of the field, and which; None if that is a matter of taste."""
    if cell == "":
        return True, None
    try:
        return READ[name](cell)
    except (ValueError, ArithmeticError):
        return False, None


def _whole(least: int, most: int) -> Callable[[str], tuple[bool | None, Any]]:
    def read(cell: str) -> tuple[bool | None, Any]:
        number = int(cell) if re.fullmatch(r"[+-]?\d+", cell) else None
        return (number is not None and least <= number <= most), number

    return read


def _real(most: float) -> Callable[[str], tuple[bool | None, Any]]:
    def read(cell: str) -> tuple[bool | None, Any]:
        if re.search(r"[dDfF]\s*$|inf|nan|^\s|\s$|_|[xXpP]", cell, re.IGNORECASE) and cell not in SPECIAL:
            return None, None
        number = float(cell)
        return cell in SPECIAL or abs(number) <= most, number

    return read


def _decimal(cell: str) -> tuple[bool | None, Any]:
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", cell):
        return (None if re.search(r"^\s|\s$|\0", cell) else False), None
    number = Decimal(cell).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
    return abs(number) < 10**7, number


def _time(cell: str) -> tuple[bool | None, Any]:
    # Spark takes more forms than ISO 8601.
    if re.fullmatch(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?", cell):
        return True, datetime.fromisoformat(cell)
    return (False if re.fullmatch(r"[a-z]+", cell) or re.match(r"\d{5}-", cell) else None), None


def _day(cell: str) -> tuple[bool | None, Any]:
    if re.fullmatch(r"\d{4}-\d\d-\d\d", cell):
        return True, date.fromisoformat(cell)
    return (False if re.fullmatch(r"[a-z]+|\d\d\.\d\d\.\d{4}", cell) else None), None


SPECIAL: Final = ("NaN", "Infinity", "-Infinity")
READ: Final[Mapping[str, Callable[[str], tuple[bool | None, Any]]]] = {
    "s": lambda cell: (True, cell),
    "l": _whole(-(1 << 63), (1 << 63) - 1),
    "y": _whole(-128, 127),
    "d": _real(1.7976931348623157e308),
    "f": _real(3.4028235677973362e38),
    "c": _decimal,
    "b": lambda cell: (cell.lower() in ("true", "false"), cell.lower() == "true"),
    "t": _time,
    "day": _day,
}


# Types of Parquet columns that a field may meet, with values of each.
COLUMNS: Final[Mapping[str, tuple[pa.DataType, Sequence[Any]]]] = {
    "int8": (pa.int8(), [-128, 127]),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1]),
    "int64": (pa.int64(), [-(2**63), 2**53 + 1, 2**63 - 1]),
    "uint8": (pa.uint8(), [0, 255]),
    "uint32": (pa.uint32(), [2**32 - 1]),
    "uint64": (pa.uint64(), [2**64 - 1]),
    "float": (pa.float32(), [0.1, math.inf]),
    "double": (pa.float64(), [0.1, 1e300]),
    "bool": (pa.bool_(), [True, False]),
    "string": (pa.string(), ["", "é", "1"]),
    "binary": (pa.binary(), [b"a", b"\xff"]),
    "dec52": (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.01")]),
    "dec104": (pa.decimal128(10, 4), [Decimal("1.0001")]),
    "dec302": (pa.decimal128(30, 2), [Decimal("12345678901234567890.12")]),
    "date": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    "ms": (pa.timestamp("ms"), [datetime(1969, 12, 31, 23, 59, 59, 999000)]),  # noqa: DTZ001  without a zone
    "us": (pa.timestamp("us"), [datetime(9999, 12, 31, 23, 59, 59, 999999)]),  # noqa: DTZ001
    "ns": (pa.timestamp("ns"), [datetime(2024, 2, 29)]),  # noqa: DTZ001
    "utc": (pa.timestamp("us", tz="UTC"), [datetime(2024, 2, 29, tzinfo=UTC)]),
    "null": (pa.null(), [None]),
}
# The fields that are declared, and the types of columns that a writer may have meant.
FIELDS: Final[Mapping[str, tuple[str, pa.DataType]]] = {
    "tinyint": ("int8", pa.int8()), "int": ("int32", pa.int32()), "bigint": ("int64", pa.int64()),
    "float": ("float", pa.float32()), "double": ("double", pa.float64()), "string": ("string", pa.string()),
    "decimal(5,2)": ("dec52", pa.decimal128(5, 2)), "decimal(20,4)": ("dec104", pa.decimal128(20, 4)),
    "date": ("date", pa.date32()), "timestamp_ntz": ("us", pa.timestamp("us")), "boolean": ("bool", pa.bool_()),
}  # fmt: skip


@dataclass(frozen=True)
class Drift:
    """A file of Parquet with a column `v`, the type that is declared for it, and how deep both are nested."""

    table: pa.Table
    declared: str
    arrow: pa.DataType
    within: str

    @property
    def schema(self) -> str:
        """The declared schema."""
        return f"v {_ddl(self.declared, self.within)}"

    def values(self) -> list[Any] | None:
        """The values as of the declared type; None if it does not hold each of them exactly."""
        try:
            made = self.table["v"].combine_chunks().cast(_arrow(self.arrow, self.within)).to_pylist()
        except (pa.ArrowException, OverflowError, ValueError):
            return None
        return made


def drift(dice: Random) -> Drift:
    """A file whose column is as declared in a third of all cases, and mostly of another type."""
    declared, (usual, arrow) = dice.choice(list(FIELDS.items()))
    kind, values = COLUMNS[usual if dice.random() < 0.3 else dice.choice(list(COLUMNS))]
    within = dice.choice(["", "", "array", "struct", "map"])
    rows = [_value(value, within) for value in (*values, None)]
    table = pa.table({"v": pa.array(rows, _arrow(kind, within))})
    return Drift(table, declared, arrow, within)


def _ddl(kind: str, within: str) -> str:
    forms = {"": kind, "array": f"array<{kind}>", "struct": f"struct<x: {kind}>", "map": f"map<string, {kind}>"}
    return forms[within]


def _arrow(kind: pa.DataType, within: str) -> pa.DataType:
    makers = {"array": pa.list_, "struct": lambda of: pa.struct({"x": of}), "map": lambda of: pa.map_(pa.string(), of)}
    return makers[within](kind) if within else kind


def _value(value: Any, within: str) -> Any:
    return {"": value, "array": [value], "struct": {"x": value}, "map": [("k", value)]}[within]


def archive(dice: Random, ending: str) -> tuple[bytes, list[int] | None]:
    """An archive of JSON lines in some parts, and the ids in it; None if it is cut, or has what is no archive."""
    pack = {".gz": gzip.compress, ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True)}[ending]
    ids = list(range(dice.randint(1, 400)))
    cuts = sorted(dice.randint(0, len(ids)) for _ in range(dice.randint(0, 3)))
    parts = [ids[first:last] for first, last in pairwise([0, *cuts, len(ids)])]
    packed = [pack(b"".join(b'{"id":%d}\n' % number for number in part)) for part in parts]
    content, what = b"".join(packed), dice.randrange(4)
    if what == 0:
        # At the end of a part nothing is missing that a reader could know of.
        ends = set(accumulate(map(len, packed)))
        cut = dice.choice([size for size in range(1, len(content)) if size not in ends])
        return content[:cut], None
    if what == 1:
        return content + dice.choice([b"x", b"garbage\n", b"\0"]), None
    return content, ids
