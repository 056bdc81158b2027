"""A stream of Redis as a source, as somebody would write it who has only read docs/connectors.md."""

import socket

from rs_assets.sources import LogSource


class RedisStream(LogSource):
    """Entries have one field with a JSON object. An id `ms-seq` is one number, with gaps."""

    gaps = True
    schema = "page string, ms bigint"

    def __init__(self, path, stream):
        self.path, self.stream = path, stream

    def ends(self):
        last = self._info().get("last-generated-id")
        return {self.stream: number(last) + 1} if last else {}

    def begins(self):
        info = self._info()
        if not info or info["entries-added"] == info["length"]:
            return {}
        return {self.stream: number(info["first-entry"][0])} if info["first-entry"] else self.ends()

    def read(self, split, start, end):
        for entry, (_, row) in command(self.path, "XRANGE", split, entry_id(start), entry_id(end - 1)):
            yield number(entry), row

    def _info(self):
        if not command(self.path, "EXISTS", self.stream):
            return {}
        flat = command(self.path, "XINFO", "STREAM", self.stream)
        return dict(zip(flat[::2], flat[1::2], strict=True))


def number(entry):
    ms, seq = entry.split("-")
    return (int(ms) << 20) + int(seq)


def entry_id(number):
    return f"{number >> 20}-{number & (1 << 20) - 1}"


def command(path, *words):
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(str(path))
        parts = "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
        link.sendall(f"*{len(words)}\r\n{parts}".encode())
        with link.makefile("rb") as answer:
            return reply(answer)


def reply(answer):
    line = answer.readline().decode().rstrip()
    kind, rest = line[:1], line[1:]
    if kind == "-":
        raise RuntimeError(rest)
    if kind == "$":
        return None if rest == "-1" else answer.read(int(rest) + 2)[:-2].decode()
    if kind == "*":
        return None if rest == "-1" else [reply(answer) for _ in range(int(rest))]
    return int(rest) if kind == ":" else rest
