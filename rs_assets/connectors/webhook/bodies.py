"""The records in the body of a request: one JSON value, an array of them, several, or lines."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Iterator

WHITE_SPACE = " \t\r\n"
# Numbers stay texts: a value is only looked for, and Python refuses whole numbers of more than 4,300 digits.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


def json_records(body: bytes) -> list[bytes]:
    r"""The elements of an array, or each value of a sequence of JSON values, with the text that was sent.

    A body that is something else is divided into lines, so that each bad one becomes a bad record.

    >>> json_records(b'[{"n": 1.10}, {"n": 2}]'), json_records(b'{"n": 1}\n{"n": 2}\n')
    ([b'{"n": 1.10}', b'{"n": 2}'], [b'{"n": 1}', b'{"n": 2}'])
    """
    try:
        text = body.removeprefix(BOM_UTF8).decode()
        values = [*_values(text, 0, len(text))]
        if len(values) == 1 and values[0].startswith("["):
            values = [*_elements(values[0])]
        return [value.encode() for value in values]
    except (UnicodeDecodeError, ValueError, RecursionError):
        return lines_of(body)


def lines_of(body: bytes) -> list[bytes]:
    """The lines of a body that are not blank, without their ends and the mark of Windows (BOM)."""
    return [line.removesuffix(b"\r") for line in body.removeprefix(BOM_UTF8).split(b"\n") if line.strip()]


def _values(text: str, at: int, end: int, separator: str = "") -> Iterator[str]:
    """The JSON values between two places; ValueError if there is anything else."""
    at = _skipped(text, at)
    while at < end:
        _, after = _DECODER.raw_decode(text, at)
        yield text[at:after]
        at = _skipped(text, after)
        if separator and at < end:
            if text[at] != separator:
                raise ValueError(text[at])
            at = _skipped(text, at + 1)


def _elements(array: str) -> Iterator[str]:
    return _values(array, 1, len(array) - 1, ",")


def _skipped(text: str, at: int) -> int:
    """The place of the next character that is not white space."""
    while at < len(text) and text[at] in WHITE_SPACE:
        at += 1
    return at
