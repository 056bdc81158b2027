"""Messages of syslog as fields: RFC 5424, RFC 3164, and what is neither."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from rs_assets.connectors.collector.messages import RECEIVED_AT, TEXT

NIL: Final = "-"
# The priority of a message without one: user, notice. The greatest one is local7, debug.
NO_PRIORITY, GREATEST = 13, 191
_PAIR = r' [^ =\]"]+="(?:[^"\\\]]|\\.)*"'
_DATA = rf'\[[^ =\]"]+(?:{_PAIR})*\]'
_NEW = re.compile(rf"<(\d{{1,3}})>1 (\S+) (\S+) (\S+) (\S+) (\S+) (-|(?:{_DATA})+)(?: (?:\ufeff)?(.*))?", re.DOTALL)
_ELEMENT = re.compile(rf'\[([^ =\]"]+)((?:{_PAIR})*)\]', re.DOTALL)
_PARAMETER = re.compile(r' ([^ =\]"]+)="((?:[^"\\\]]|\\.)*)"', re.DOTALL)
_ESCAPED = re.compile(r'\\(["\\\]])')
_OLD = re.compile(r"<(\d{1,3})>(?:([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)|(\d{4}-\d\d-\d\dT\S+)) (\S+) (.*)", re.DOTALL)
_TAG = re.compile(r"([^\s:\[]{1,48})(?:\[([^\]]*)\])?:\s?(.*)", re.DOTALL)
_PRIORITY = re.compile(r"<(\d{1,3})>(.*)", re.DOTALL)


def syslog_line(message: dict[str, Any], zone: str = "UTC") -> bytes:
    """A message of the log as a JSON object of the schema; bytes that are not UTF-8 stay as they are."""
    text = message[TEXT].decode(errors="surrogateescape")
    fields = syslog_fields(text, message[RECEIVED_AT], ZoneInfo(zone))
    return json.dumps(fields, ensure_ascii=False).encode(errors="surrogateescape")


def syslog_fields(text: str, received_at: datetime, zone: tzinfo = UTC) -> dict[str, Any]:
    """The fields of a message. Times of RFC 3164 have neither year nor zone: the year nearest to `received_at`, `zone`.

    >>> found = syslog_fields("<34>Oct 11 22:14:15 web su[7]: failed", datetime(2026, 10, 11, tzinfo=UTC))
    >>> found["facility"], found["severity"], found["sent_at"], found["app"], found["process"], found["message"]
    (4, 2, '2026-10-11T22:14:15+00:00', 'su', '7', 'failed')
    """
    return _new(text) or _old(text, received_at, zone) or _neither(text)


def _new(text: str) -> dict[str, Any] | None:
    match = _NEW.fullmatch(text)
    if match is None or int(match[1]) > GREATEST:
        return None
    try:
        sent = None if match[2] == NIL else datetime.fromisoformat(match[2])
    except ValueError:
        return None
    if sent is not None and sent.tzinfo is None:
        return None
    host, app, process, kind = (None if value == NIL else value for value in match.group(3, 4, 5, 6))
    return _fields(match[1], sent, host, app, process, match[8] or "", message_id=kind, data=_data(match[7]))


def _data(text: str) -> dict[str, dict[str, str]]:
    """The structured data: parameters by element; the last of several with one name counts."""
    return {
        element[1]: {name: _ESCAPED.sub(r"\1", value) for name, value in _PARAMETER.findall(element[2])}
        for element in _ELEMENT.finditer(text)
    }


def _old(text: str, received_at: datetime, zone: tzinfo) -> dict[str, Any] | None:
    match = _OLD.fullmatch(text)
    if match is None or int(match[1]) > GREATEST:
        return None
    sent = _nearest(match[2], received_at, zone) if match[2] else _moment(match[3], zone)
    if sent is None:
        return None
    tag = _TAG.fullmatch(match[5])
    app, process, message = tag.groups() if tag is not None else (None, None, match[5])
    return _fields(match[1], sent, match[4], app, process, message)


def _neither(text: str) -> dict[str, Any]:
    match = _PRIORITY.fullmatch(text)
    if match is None or int(match[1]) > GREATEST:
        return _fields(str(NO_PRIORITY), None, None, None, None, text)
    return _fields(match[1], None, None, None, None, match[2])


def _nearest(text: str, received_at: datetime, zone: tzinfo) -> datetime | None:
    """The time without a year that is nearest to `received_at`; None for a day that there is in none of the years."""
    found = []
    for year in (received_at.year - 1, received_at.year, received_at.year + 1):
        try:
            found.append(datetime.strptime(f"{year} {text}", "%Y %b %d %H:%M:%S").replace(tzinfo=zone))
        except ValueError:
            continue
    return min(found, key=lambda each: abs(each - received_at), default=None)


def _moment(text: str, zone: tzinfo) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=zone)


def _fields(
    priority: str,
    sent: datetime | None,
    host: str | None,
    app: str | None,
    process: str | None,
    message: str,
    *,
    message_id: str | None = None,
    data: dict[str, dict[str, str]] | None = None,
) -> dict[str, Any]:
    facility, severity = divmod(int(priority), 8)
    return {
        "facility": facility,
        "severity": severity,
        "sent_at": None if sent is None else sent.isoformat(),
        "host": host,
        "app": app,
        "process": process,
        "message_id": message_id,
        "structured_data": data or {},
        "message": message,
    }
