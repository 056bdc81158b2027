"""A stream of Redis: its entries by their ids, where a batch ends, and how lost entries are found.

An id `ms-seq` is one number. The server counts the entries that a stream ever got, so an offset has two parts: the last
id that was read, and how many entries the stream had got by then. If as many entries follow the id as the count has
grown, none is missing: trimmed, deleted, or lost in a crash of the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from rs_assets.common.plural import count_of
from rs_assets.connectors.own.plan import OffsetForm
from rs_assets.connectors.redis.client import RedisClient
from rs_assets.connectors.source import BEGIN_ANEW
from rs_assets.errors import CheckpointError, DataLossError, SourceReadError

SEQ_BITS: Final = 20
# Entries of one answer of the server: others wait for it.
CHUNK: Final = 2_000
# How many entries from an id there are, of at most some, and the id of the last one: without their values.
COUNT: Final = """
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', ARGV[3])
if #found == 0 then return {0, ''} end
return {#found, found[#found][1]}
"""
KEPT: Final = f"put them back; or {BEGIN_ANEW}, and let the stream keep its entries for longer (MAXLEN, MINID of XADD)"

Entry = tuple[int, Mapping[bytes, bytes]]


class Offset(NamedTuple):
    """The number of the last id that was read (-1: none), and how many entries the stream had ever got by then.

    `first_last` and `first_added` are these of the place where the first batch began, which is computed again from it.
    """

    last: int
    added: int
    first_last: int = -1
    first_added: int = 0

    @property
    def first(self) -> Offset:
        """Where the first batch began."""
        return Offset(self.first_last, self.first_added, self.first_last, self.first_added)

    def to(self, last: int, added: int) -> Offset:
        """A later place."""
        return self._replace(last=last, added=added)


Offsets = Mapping[str, Offset]


class Facts(NamedTuple):
    """A stream as it is: the last id that it gave, the entries that it ever got, and those that it still has."""

    last: int
    added: int
    length: int

    @property
    def begin(self) -> Offset:
        """Before the first entry that is still there."""
        return Offset(-1, self.added - self.length, -1, self.added - self.length)

    @property
    def end(self) -> Offset:
        """After the last entry."""
        return Offset(self.last, self.added, self.last, self.added)


# A stream that does not exist yet.
NOTHING: Final = Facts(-1, 0, 0)


def number_of(entry: bytes) -> int:
    """An id as a number; SourceReadError for one with a sequence that needs more than 20 bits.

    >>> number_of(b"1-2"), id_of(number_of(b"1700000000000-7"))
    (1048578, '1700000000000-7')
    """
    ms, _, seq = entry.partition(b"-")
    if int(seq) >> SEQ_BITS or int(ms) >> (63 - SEQ_BITS):
        raise SourceReadError(
            f"the id {entry.decode()} is too large: a sequence has at most {SEQ_BITS} bits, a time {63 - SEQ_BITS}",
            remedy="let the server make the ids (XADD ... *)",
        )
    return (int(ms) << SEQ_BITS) + int(seq)


def id_of(number: int) -> str:
    """The id of a number."""
    return f"{number >> SEQ_BITS}-{number & (1 << SEQ_BITS) - 1}"


def loaded(data: Mapping[str, object] | str | None) -> dict[str, Offset]:
    """Offsets from Spark's log (None: none yet), by the streams; else CheckpointError.

    >>> loaded('{"b": [1048578, 9]}'), loaded(None)
    ({'b': Offset(last=1048578, added=9, first_last=-1, first_added=0)}, {})
    """
    if data is None:
        return {}
    try:
        body: Any = orjson.loads(data) if isinstance(data, str) else data
        return {str(stream): Offset(*map(int, body[stream])) for stream in sorted(body)}
    except (orjson.JSONDecodeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"{str(data)[:100]!r} is not an offset of a stream of Redis") from error


def dumped(offsets: Offsets) -> dict[str, object]:
    """Offsets for Spark's log, always in the same order.

    >>> dumped({"b": Offset(7, 9), "a": Offset(3, 4, -1, 2)})
    {'a': [3, 4, -1, 2], 'b': [7, 9]}
    """
    return {stream: [*(at if at.first_added else at[:2])] for stream, at in sorted(offsets.items())}


def ranges(start: Offsets, end: Offsets) -> dict[str, tuple[Offset, Offset]]:
    """The range of each stream that has entries between two offsets; one that `start` lacks is read from its first.

    >>> ranges({"a": Offset(3, 4)}, {"a": Offset(3, 4), "b": Offset(9, 7, 5, 6)})
    {'b': (Offset(last=5, added=6, first_last=5, first_added=6), Offset(last=9, added=7, first_last=5, first_added=6))}
    """
    since = {stream: start.get(stream, at.first) for stream, at in end.items()}
    return {stream: (since[stream], at) for stream, at in end.items() if at.added > since[stream].added}


IDS: Final = OffsetForm(load=loaded, dump=dumped, ranges=ranges)


def facts_of(client: RedisClient, stream: str) -> Facts:
    """The facts about a stream; SourceReadError for a key of another kind, and for a server that does not count."""
    from redis.exceptions import ResponseError

    try:
        found = client.execute_command("XINFO STREAM", stream)
    except ResponseError as error:
        if "no such key" in str(error):
            return NOTHING
        raise
    if "entries-added" not in found:
        raise SourceReadError("the server does not count the entries of streams", remedy="use Redis 7.0 or later")
    return Facts(number_of(found["last-generated-id"]), found["entries-added"], found["length"])


def check_there(stream: str, facts: Facts, read: Offset) -> None:
    """DataLossError if the stream ends before what was read of it."""
    if facts.last < read.last or facts.added < read.added:
        raise DataLossError(
            f"the stream {stream!r} was read up to {id_of(read.last)} and ends before it: it was removed or created"
            " again, or the server has lost entries in a crash (appendfsync everysec loses a second)",
            remedy=f"put its entries back; or {BEGIN_ANEW}",
            stream=stream,
        )


def next_offset(client: RedisClient, stream: str, since: Offset, facts: Facts, rows: int | None) -> Offset:
    """The end of a batch of at most `rows` entries after `since`; DataLossError if entries are missing."""
    check_there(stream, facts, since)
    unread = facts.added - since.added
    if not unread or rows is None or unread <= rows:
        return since.to(facts.last, facts.added) if unread else since
    counted, at = client.register_script(COUNT), since
    while at.added < since.added + rows:
        most = min(CHUNK, since.added + rows - at.added)
        count, last = counted(keys=[stream], args=[_after(at), id_of(facts.last), most])
        if not count:
            raise _lost(stream, since, facts.end, at.added - since.added)
        at = at.to(number_of(last), at.added + count)
    return at


def entries_between(client: RedisClient, stream: str, start: Offset, end: Offset) -> Iterator[list[Entry]]:
    """The entries between two offsets, some at a time; DataLossError if they are not as many as were planned."""
    at, last = start, id_of(end.last)
    while at.added < end.added:
        found = client.xrange(stream, _after(at), last, count=CHUNK)
        if not found:
            break
        chunk = [(number_of(entry), values) for entry, values in found]
        at = at.to(chunk[-1][0], at.added + len(chunk))
        yield chunk
    if at.added != end.added or client.xrange(stream, _after(at), last, count=1):
        raise _lost(stream, start, end, at.added - start.added)


def _after(at: Offset) -> str:
    return "-" if at.last < 0 else f"({id_of(at.last)}"


def _lost(stream: str, start: Offset, end: Offset, found: int) -> DataLossError:
    return DataLossError(
        f"of {count_of(end.added - start.added, 'unread entry')} of the stream {stream!r} {found} can be found:"
        " others were trimmed, deleted, or put in between",
        remedy=KEPT,
        stream=stream,
        range=f"ids after {id_of(start.last) if start.last >= 0 else 0} up to {id_of(end.last)}",
    )
