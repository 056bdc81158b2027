"""Carries errors of this project from a Python worker to the driver, where only text survives.

The worker puts `RS_ERROR{json}` into the message of its exception. The driver searches for that marker in Spark's
message (a Java stack trace, a JSON string with escaped quotes) and rebuilds the error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from rs_assets import errors
from rs_assets.errors import RsError

MARKER = "RS_ERROR"
# Java and JSON each escape the text once per layer; more than three layers were never seen.
MAX_ESCAPES = 3
_OWN = frozenset({"what", "remedy", "facts"})


def to_wire(error: RsError) -> str:
    r"""The marker text that carries `error`: class name, text and facts, in one line of ASCII.

    Facts that JSON cannot represent are carried as their text.

    >>> to_wire(errors.SinkError("no space", remedy="free some", table="a"))
    'RS_ERROR{"class": "SinkError", "what": "no space", "remedy": "free some", "facts": {"table": "a"}}'
    """
    body: dict[str, object] = {
        "class": type(error).__name__,
        "what": error.what,
        "remedy": error.remedy,
        "facts": dict(error.facts),
    }
    extra = {name: value for name, value in vars(error).items() if name not in _OWN and not name.startswith("_")}
    if extra:
        body["attributes"] = extra
    return MARKER + json.dumps(body, default=str)


def from_wire(text: str) -> RsError | None:
    r"""The first complete error in `text`, or None.

    >>> trace = "org.apache.spark.SparkException: Job aborted\n\tat X.java:1\n" + to_wire(RsError("gone", file="a.log"))
    >>> from_wire(trace + "\n\tat Y.java:2")
    RsError('gone')
    >>> from_wire("java.lang.NullPointerException") is None
    True
    """
    for match in re.finditer(MARKER, text):
        body = _decoded(text[match.end() :])
        if body is not None:
            return _rebuilt(body)
    return None


@contextmanager
def wired() -> Iterator[None]:
    """Put the marker for `from_wire` into the text of project errors that leave the block.

    >>> with wired():
    ...     raise errors.SourceReadError("cut short", file="a.gz")
    Traceback (most recent call last):
    rs_assets.errors.RsError: RS_ERROR{"class": "SourceReadError", "what": "cut short", ...}}
    """
    try:
        yield
    except RsError as error:
        raise (error if error.what.startswith(MARKER) else RsError(to_wire(error))) from None


def _decoded(rest: str) -> dict[str, object] | None:
    """The JSON object at the start of `rest`, unescaped as often as needed."""
    for _ in range(MAX_ESCAPES + 1):
        try:
            body, _end = json.JSONDecoder().raw_decode(rest)
        except ValueError:
            rest = re.sub(r"\\(.)", r"\1", rest)
            continue
        return body if isinstance(body, dict) and "class" in body and "what" in body else None
    return None


def _rebuilt(body: dict[str, object]) -> RsError:
    """The error of that class; an unknown class becomes RsError, which keeps the whole text."""
    kind = getattr(errors, str(body["class"]), None)
    if not (isinstance(kind, type) and issubclass(kind, RsError)):
        kind = RsError
    facts = body.get("facts")
    # Some classes build their text from other arguments, so only the constructor of RsError fits all of them.
    error = kind.__new__(kind)
    named = {str(key): value for key, value in facts.items()} if isinstance(facts, dict) else {}
    RsError.__init__(error, str(body["what"]), remedy=str(body.get("remedy", "")), **named)
    extra = body.get("attributes")
    for name, value in extra.items() if isinstance(extra, dict) else ():
        setattr(error, str(name), tuple(value) if isinstance(value, list) else value)
    return error
