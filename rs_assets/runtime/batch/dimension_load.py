"""Loads a dimension for a run: once for all steps that use it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyspark.sql.types import StructType

from rs_assets.common.background import BackgroundFailures
from rs_assets.errors import SourceReadError
from rs_assets.operators.dimension.loading import Loader, loaded
from rs_assets.operators.dimension.spec import Dimension
from rs_assets.runtime.batch.dimensions import RunDimension

# A load that takes longer is reported, and again whenever its time has doubled.
SLOW = timedelta(seconds=10)


@dataclass(slots=True, kw_only=True)
class DimensionLoad:
    """A dimension and the steps `used` that look rows up in it; a new version is taken up by all of them at once.

    `pinning` is held while a version is chosen for a batch and recorded, while versions are exchanged, and while they
    are removed. `taken_up` is called after an exchange.
    """

    dimension: Dimension
    loader: Loader
    used: tuple[RunDimension, ...]
    failures: BackgroundFailures
    pinning: threading.Lock
    taken_up: Callable[[], None]
    _mark: str | None = None
    _ended: bool = False
    _loading: threading.Lock = field(default_factory=threading.Lock)
    _adding: threading.Lock = field(default_factory=threading.Lock)

    @property
    def step(self) -> str:
        """The first of the steps, for messages about the load."""
        return self.used[0].node.name

    @property
    def effect(self) -> str:
        """The effect of failing loads."""
        several = len(self.used) > 1
        names = ", ".join(repr(each.node.name) for each in self.used)
        return f"the dimension of step{'s' if several else ''} {names} is as old as its last load"

    def begin(self) -> None:
        """Load it for a start. If a load fails, the versions of the previous run are used, and the failure is reported.

        If a step has no such version the start is refused: RsError.
        """
        found = [each.restored() for each in self.used]
        marks = {version.mark if version is not None else None for version in found}
        self._mark = marks.pop() if len(marks) == 1 else None
        if None in found:
            self.reload()
            return
        with self.failures.guarding(self.effect):
            self.reload()

    def reload(self) -> None:
        """Load it if there is something new. RsError, without any change, if that fails or gives no row."""
        with self._loading, self._telling():
            mark = self._marked()
            if mark is None or mark != self._mark:
                self._load(mark)

    def end(self) -> None:
        """Take up no more versions: another run may do so now. The result of a running load is discarded."""
        with self._adding:
            self._ended = True

    def prune(self) -> None:
        """Remove the versions that are needed neither by the next batch nor by one that may be computed again."""
        with self._adding, self.pinning:
            for each in () if self._ended else self.used:
                each.prune()

    def _marked(self) -> str | None:
        try:
            return self.loader.mark()
        except (OSError, DeltaError) as error:
            why = getattr(error, "strerror", None) or str(error).partition("\n")[0]
            raise SourceReadError(
                f"the dimension of step {self.step!r} cannot be found: {why}",
                remedy="create it, or correct its location",
                step=self.step,
                file=getattr(error, "filename", None),
            ) from error

    def _load(self, mark: str | None) -> None:
        table, schema = loaded(self.loader, self.used[0].schema, step=self.step)
        for each in self.used:
            each.check(table)
        with self._adding:
            if not self._ended:
                self._take_up(table, schema, mark)

    def _take_up(self, table: pa.Table, schema: StructType, mark: str | None) -> None:
        versions = [each.added(table, mark) for each in self.used]
        with self.pinning:
            for each, version in zip(self.used, versions, strict=True):
                each.use(version, schema)
        self._mark = mark
        self.taken_up()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Warn while a load takes long."""
        over = threading.Event()
        effect = f"step {self.step!r} waits for its dimension, {self.dimension.text}"
        watch = threading.Thread(target=self._watch, args=(over, effect), name="rs-dimension-watch", daemon=True)
        watch.start()
        try:
            yield
        finally:
            over.set()
            self.failures.succeeded(effect)

    def _watch(self, over: threading.Event, effect: str) -> None:
        waited = pause = SLOW
        while not over.wait(pause.total_seconds()):
            told = SourceReadError(
                f"the load has been running for {waited.total_seconds():g} s",
                remedy="check that its source responds; a loader may have its own timeout",
            )
            self.failures.failed(effect, told)
            if over.is_set():
                self.failures.succeeded(effect)
            pause, waited = waited, 2 * waited
