"""Watches a program change files one by one, and keeps what a SIGKILL between two changes would leave.

The program runs with `shim.c` loaded. Each change of a file below the root waits for us: one goes at a time, and after
it the tree is known again. So before a change and behind it is a crash point, and the tree there is exact, for a
SIGKILL leaves what the page cache has. `Recorder.kill_at` kills for real at such a point instead.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from tests.faults.processes import QUICK_START
from tests.torture.trees import FOLDER, Entry, Tree, Vault, digest, stable

SHIM = Path(__file__).with_name("shim.c")
# All operations on a busy machine.
PATIENCE_S = 1800
# Where a commit becomes one: the logs of Delta and of Spark, and the manifest.
COMMITS = ("_delta_log/", "/commits/", "/offsets/", "manifest.json")


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A change that was made: in which operation, what, where, the how manieth of its name, and before or behind it."""

    operation: str
    kind: str
    path: str
    number: int
    side: str

    def __str__(self) -> str:
        """As `make torture POINT=...` takes it."""
        return f"{self.operation}|{self.kind}|{self.path}|{self.number}|{self.side}"

    @classmethod
    def parse(cls, text: str) -> Point:
        """The point of a name that was printed."""
        operation, kind, path, number, side = text.split("|")
        return cls(operation, kind, path, int(number), side)


@dataclass(frozen=True, slots=True)
class Crash:
    """What lies on the disk at a point."""

    point: Point
    tree: Tree

    @property
    def digest(self) -> str:
        """Equal for equal trees."""
        return digest(self.tree)


@dataclass(frozen=True, slots=True)
class Recording:
    """What was recorded: what lay there before each operation, and at each of its points."""

    root: Path
    vault: Vault
    bases: Mapping[str, Tree]
    crashes: tuple[Crash, ...]

    def of(self, *operations: str) -> list[Crash]:
        """The crashes of some operations, of all if none is named."""
        return [crash for crash in self.crashes if not operations or crash.point.operation in operations]

    def save(self, file: Path) -> None:
        """Write it down; equal trees once."""
        trees = {digest(tree): tree for tree in (*self.bases.values(), *(crash.tree for crash in self.crashes))}
        content = {
            "root": str(self.root),
            "vault": str(self.vault.folder),
            "trees": {
                name: {path: list(astuple(entry)) for path, entry in tree.items()} for name, tree in trees.items()
            },
            "bases": {operation: digest(tree) for operation, tree in self.bases.items()},
            "crashes": [(str(crash.point), crash.digest) for crash in self.crashes],
        }
        file.write_text(json.dumps(content))

    @classmethod
    def load(cls, file: Path) -> Recording:
        """What was written down."""
        content = json.loads(file.read_text())
        known: dict[tuple[str, int, int], Entry] = {}
        trees = {
            name: {path: known.setdefault(tuple(entry), Entry(*entry)) for path, entry in tree.items()}
            for name, tree in content["trees"].items()
        }
        crashes = tuple(Crash(Point.parse(point), trees[name]) for point, name in content["crashes"])
        bases = {operation: trees[name] for operation, name in content["bases"].items()}
        return cls(Path(content["root"]), Vault(Path(content["vault"])), bases, crashes)


class ShimError(Exception):
    """The shim cannot be made here, or it has missed a change."""


def compile_shim(folder: Path) -> Path:
    """The shim as a library; ShimError without a C compiler, or where there is no LD_PRELOAD."""
    made = folder / "shim.so"
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None or not sysconfig.get_platform().startswith("linux"):
        raise ShimError("crash points are recorded by a small C library under Linux: no C compiler was found")
    if not made.exists():
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(made), str(SHIM), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ShimError(done.stderr)
    return made


class Recorder:
    """Listens to the shim. `crashes` are the points so far, with what lay below `root` then."""

    def __init__(self, root: Path, vault: Vault, work: Path, *, kill_at: Point | None = None) -> None:
        self.root, self.vault, self.work = root, vault, work
        self.shim = compile_shim(work)
        self.kill_at, self.killed = kill_at, threading.Event()
        self.crashes: list[Crash] = []
        self.bases: dict[str, Tree] = {}
        # Paths that changed without being asked for: then some crash points were not seen.
        self.missed: dict[str, list[str]] = {}
        self._tree: dict[str, Entry] = {}
        self._operation = ""
        self._asked: Counter[tuple[str, str]] = Counter()
        self._one = threading.Lock()
        self.process: subprocess.Popen[bytes]

    @property
    def environment(self) -> Mapping[str, str]:
        """What a program needs to be watched."""
        return {
            "LD_PRELOAD": str(self.shim),
            "RS_TORTURE_ROOT": str(self.root),
            "RS_TORTURE_SOCKET": str(self.work / "s"),
        }

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen; each change gets a thread of its own, which waits for its turn."""
        place = self.work / "s"
        place.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(place))
            listener.listen(256)
            threading.Thread(target=self._accept, args=(listener,), name="torture", daemon=True).start()
            try:
                yield
            finally:
                with suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(ConnectionError):
            text = b""
            while text.count(b"\n") < 3:
                more = connection.recv(16384)
                if not more:
                    return
                text += more
            kind, *paths = text.decode(errors="surrogateescape").split("\n")[:3]
            with self._one:
                if self.killed.is_set():
                    # Nothing is answered any more, until the one who asks is dead.
                    pass
                elif kind == "mark":
                    self._mark(*paths)
                    connection.send(b"1")
                else:
                    self._change(connection, kind, [os.path.normpath(path) for path in paths if path])
            if self.killed.is_set():
                connection.recv(1)

    def _mark(self, what: str, operation: str) -> None:
        """The program begins an operation, or has ended it."""
        if what == "begin":
            self._operation, self._asked = operation, Counter()
            self._tree = self.vault.scan(self.root)
            self.bases[operation] = dict(self._tree)
            return
        self._operation = ""
        missed = {path for path, _ in self._tree.items() ^ self.vault.scan(self.root).items()}
        if missed:
            self.missed[operation] = sorted(missed)

    def _change(self, connection: socket.socket, kind: str, paths: list[str]) -> None:
        if not self._operation:
            connection.send(b"1")
            connection.recv(1)
            connection.send(b"1")
            return
        below = [path for path in paths if path.startswith(f"{self.root}/")]
        name = stable(os.path.relpath(below[-1], self.root))
        if kind in ("rename", "link") and any(part in f"/{name}" for part in COMMITS):
            kind = "commit"
        self._asked[kind, name] += 1
        point = Point(self._operation, kind, name, self._asked[kind, name], "before")
        before = dict(self._tree)
        if self._kill(point):
            return
        connection.send(b"1")
        if connection.recv(1) == b"1":
            for path in below:
                self._look(path)
        behind = Point(point.operation, kind, name, point.number, "behind")
        if self._tree != before:
            after = dict(self._tree)
            self.crashes += [Crash(point, before), Crash(behind, after)]
        if self._kill(behind):
            return
        connection.send(b"1")

    def _kill(self, point: Point) -> bool:
        if point == self.kill_at:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.killed.set()
        return self.killed.is_set()

    def _look(self, path: str) -> None:
        """Bring the known tree up to what is at `path` now."""
        name = os.path.relpath(path, self.root)
        had, has = self._tree.pop(name, None), self.vault.entry(Path(path))
        if had is not None and had.content == FOLDER and (has is None or has.content != FOLDER):
            for each in [each for each in self._tree if each.startswith(f"{name}/")]:
                del self._tree[each]
        if has is not None:
            self._tree[name] = has
            if has.content == FOLDER and had is None:
                self._tree |= self.vault.scan(self.root, name)


def record(folder: Path, *operations: str) -> Recording:
    """Record the named operations (none: all), each on what the ones before it left, in a program of its own."""
    root = folder / "world"
    root.mkdir()
    recorder = Recorder(root, Vault(folder / "vault"), folder)
    output = run_watched(recorder, *operations)
    if recorder.missed or recorder.process.returncode:
        raise ShimError(f"changes that were not seen: {recorder.missed}; {output}")
    return Recording(root, recorder.vault, recorder.bases, tuple(recorder.crashes))


def run_watched(recorder: Recorder, *arguments: str) -> str:
    """Run the program of operations under the recorder to its end, and return what it said."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.torture.operations", str(recorder.root), *arguments]
    environment = {**os.environ, **recorder.environment, "JAVA_TOOL_OPTIONS": QUICK_START}
    with (
        recorder.listening(),
        subprocess.Popen(
            command, env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process,
    ):
        recorder.process = process
        try:
            output, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            # Its JVM too, which outlives it by a moment.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return output.decode(errors="replace")[-3000:]
