"""Conditions in SQL that a command gets by `--where`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F

from rs_assets.errors import ConfigurationError

# What a value of a row cannot be; other errors are not those of a condition.
_FAILED: Final = re.compile(
    r"\[(?:CAST_|CANNOT_PARSE_|INVALID_|DIVIDE_BY_ZERO|NUMERIC_|ARITHMETIC_|\w*OVERFLOW)[\w.]*\][^\n]*"
)


def condition(where: str) -> Column:
    """The condition of a text; ParseException if it is not a whole one.

    Spark reads `line = 2 OR` as the condition `line = 2` with the name `OR`, but not in brackets.
    """
    F.expr(where)
    # A comment at the end of the text does not hide the bracket.
    return F.expr(f"({where}\n)")


@contextmanager
def asked(where: str | None, fields: Sequence[str], whose: str) -> Iterator[None]:
    """Errors of Spark over a condition as ConfigurationError, with the `fields` that it may name, those of `whose`."""
    named = f"the fields of {whose} are: {', '.join(fields)}"
    try:
        yield
    except AnalysisException as error:
        partly = isinstance(error, ParseException)
        raise ConfigurationError(
            f"Spark does not accept {where!r}: {str(error).strip().splitlines()[0]}",
            remedy=f"write a whole condition, as after WHERE in SQL; {named}" if partly else named,
        ) from error
    except (PySparkException, Py4JError) as error:
        found = _FAILED.search(str(error)) if where is not None else None
        if found is None:
            raise
        raise ConfigurationError(
            f"the condition {where!r} fails for a row: {found[0]}",
            remedy="compare a text with a text in quotes, or cast it by TRY_CAST(... AS BIGINT)",
        ) from error
