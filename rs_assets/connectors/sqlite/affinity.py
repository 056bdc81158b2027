"""What a column of SQLite makes of values, whatever their type is: its declared type prefers some."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import CharType, DataType, DecimalType, DoubleType, FloatType, LongType, StringType, VarcharType

TEXT, NUMBERS = "TEXT", ("INTEGER", "REAL", "NUMERIC")
# The first part of a declared type that is found decides.
AFFINITIES: Final = (
    ("INT", "INTEGER"),
    ("CHAR", TEXT),
    ("CLOB", TEXT),
    ("TEXT", TEXT),
    ("BLOB", "BLOB"),
    ("REAL", "REAL"),
    ("FLOA", "REAL"),
    ("DOUB", "REAL"),
)
# A number that SQLite makes of a text, or a text of a number, has so many digits.
DIGITS: Final = 15


def affinity(declared: str) -> str:
    """The affinity of a column of a declared type.

    >>> [affinity(each) for each in ("varchar(9)", "STRING", "", "bigint", "double precision")]
    ['TEXT', 'NUMERIC', 'BLOB', 'INTEGER', 'REAL']
    """
    return next((found for part, found in AFFINITIES if part in declared.upper()), "NUMERIC" if declared else "BLOB")


def changes(kind: DataType, declared: str) -> bool:
    """Whether a column changes values of a field: the text '007' is the number 7 where numbers are preferred.

    >>> changes(StringType(), "STRING"), changes(StringType(), "TEXT"), changes(LongType(), "INTEGER")
    (True, False, False)
    """
    found = affinity(declared)
    if isinstance(kind, StringType | CharType | VarcharType):
        # Times and dates are written as texts, which are not numbers.
        return found in NUMBERS and not any(part in declared.upper() for part in ("DATE", "TIME"))
    if isinstance(kind, DecimalType):
        return found in NUMBERS and kind.precision > DIGITS
    if isinstance(kind, DoubleType | FloatType):
        return found == TEXT
    return isinstance(kind, LongType) and found == "REAL"
