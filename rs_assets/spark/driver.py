"""The one thread that talks to Spark.

Dagster ends a run, and a person a program, by an interrupt in the main thread. Inside a py4j call that would leave an
unread reply in the socket and every later call would read the wrong one. So no other thread calls Spark, except the
ones that Spark itself calls back on.
"""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from rs_assets.errors import ConfigurationError, EngineError
from rs_assets.spark.settings import SQL_SETTINGS, SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
# What is called with the session, which is made for it; None ends the session, if there is one.
Task = tuple[Callable[["SparkSession"], Any] | None, "Future[Any]"]
# Loggers of Spark in Python, which write each error of a query as a line of JSON.
QUERY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# How long an interruptible wait sleeps before it looks for an interrupt, in seconds.
WAIT_S = 0.5
# How long a JVM that was told to end is waited for, in seconds.
END_S = 10


class SparkDriver:
    """Owns a session and the thread that calls it; the session is made at the first call.

    With `session` it borrows that one: settings of SQL are applied, and stopping leaves it alone.
    """

    _shared: ClassVar[SparkDriver | None] = None
    _shared_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, settings: SparkSettings | None = None, *, session: SparkSession | None = None) -> None:
        self.settings = settings or SparkSettings()
        self._borrowed = session
        self._session: SparkSession | None = None
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @classmethod
    def shared(cls, settings: SparkSettings | None = None) -> SparkDriver:
        """The driver of this process: Spark has one session a process. `settings` count for the first caller only."""
        with cls._shared_lock:
            if cls._shared is None:
                cls._shared = cls(settings)
                atexit.register(_stop_at_exit, cls._shared)
            return cls._shared

    @property
    def started(self) -> bool:
        """Whether a call has made the session, and `stop` has not ended it since."""
        return self._session is not None

    def prepare(self) -> None:
        """Begin to make the session, without waiting for it; whatever prevents it is raised by the next call."""
        self._ensure_thread()
        self._tasks.put((lambda _: None, Future()))

    def call(self, function: Callable[[SparkSession], T]) -> T:
        """Run `function(session)` on the driver's thread and return its result; the wait can be interrupted."""
        if threading.current_thread() is self._thread:
            return function(self._ready_session())
        future: Future[T] = Future()
        self._ensure_thread()
        self._tasks.put((function, future))
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        # Event.wait, not Future.result or Thread.join: an exception inside those can leave them broken.
        while not done.wait(WAIT_S):
            pass
        return future.result()

    def stop(self) -> None:
        """Stop the session if it is owned, and end the thread. May be called twice."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is None:
                return
            if thread.is_alive():
                finished: Future[None] = Future()
                self._tasks.put((None, finished))
                self._tasks.put(None)
                with suppress(TimeoutError):
                    finished.result(timeout=30)
        with self._shared_lock:
            if SparkDriver._shared is self:
                SparkDriver._shared = None

    def _ensure_thread(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="rs-spark-driver", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._done(*task)
            # While it waits for the next call it must not keep what the last one was about.
            del task

    def _done(self, function: Callable[[SparkSession], Any] | None, future: Future[Any]) -> None:
        try:
            if function is None:
                self._end_session()
                future.set_result(None)
            else:
                future.set_result(function(self._ready_session()))
        except BaseException as error:  # noqa: BLE001  handed to the caller whole
            future.set_exception(error)

    def _ready_session(self) -> SparkSession:
        if self._session is None:
            self._session = self._borrow(self._borrowed) if self._borrowed else make_session(self.settings)
        return self._session

    @staticmethod
    def _borrow(session: SparkSession) -> SparkSession:
        for key, value in SQL_SETTINGS.items():
            session.conf.set(key, value)
        return session

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is None or self._borrowed is not None:
            return
        for query in session.streams.active:
            query.stop()
        session.stop()
        _end_gateway()


def _stop_at_exit(driver: SparkDriver) -> None:
    """Stop it; who presses Ctrl-C once more waits no longer, and the JVM ends by itself."""
    with suppress(KeyboardInterrupt):
        driver.stop()


def make_session(settings: SparkSettings) -> SparkSession:
    """A new session with `settings`, on the Java and the jars that `rs-assets setup` found; EngineError if it fails."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException, PySparkRuntimeError
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    from rs_assets.spark import archive
    from rs_assets.spark.java import java_home
    from rs_assets.spark.processor.library import session_jars

    os.environ["JAVA_HOME"] = str(java_home())
    # Workers must be the same Python with the same packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in settings.environment().items():
        os.environ.setdefault(name, value)
    builder = SparkSession.builder
    jars = session_jars()
    if settings.is_one_process:
        settings = replace(settings, java_options=f"{archive.options(jars)} {settings.java_options}".strip())
    conf = settings.conf(jars)
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        _begin_gateway(conf)
        session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise EngineError(
            f"Spark did not start: {error}", remedy="run `rs-assets setup`; see the text above"
        ) from error
    except (Py4JJavaError, PySparkException) as error:
        raise _refused(error) from error
    session.sparkContext.setLogLevel("OFF")
    # What an expression or a query fails of reaches the caller as an exception; here it is a screen of JSON.
    for name in QUERY_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    return session


def _refused(error: Exception) -> ConfigurationError:
    """What Spark says of its settings, without the trace of Java."""
    told = re.findall(r"^(?:Caused by|:).*?([A-Za-z]+(?:Exception|Error): [^\n]{1,300})", str(error), re.MULTILINE)
    return ConfigurationError(
        f"Spark does not start with these settings: {told[-1] if told else str(error).splitlines()[0][:300]}",
        remedy="correct the master (RS_SPARK_MASTER), the memory (RS_DRIVER_MEMORY) or the settings laid over ours"
        " (spark_config, SparkSettings(extra=...))",
    )


def _begin_gateway(conf: Mapping[str, str]) -> None:
    """Begin the JVM in a process group of its own, if there is none yet.

    What a terminal sends to all that was started there would end it, and with it the batch that is drained.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:  # noqa: SLF001  pyspark has no public way to begin its JVM
        own = SparkConf().setAll(list(conf.items()))
        gateway = launch_gateway(own, {"process_group": 0})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=own)  # noqa: SLF001


def _end_gateway() -> None:
    """End the JVM: it lives as long as its gateway's standard input is open."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001  pyspark has no public way to end its JVM
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None and process.stdin is not None:
        process.stdin.close()
        # It ends by itself, sooner or later.
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=END_S)
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
