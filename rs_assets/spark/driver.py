"""The one thread that talks to Spark.

Dagster stops a run, and a user a program, by an interrupt in the main thread. An interrupt inside a py4j call would
leave an unread reply in the socket, and every later call would read the wrong one. So no other thread calls Spark,
except the threads on which Spark itself calls back, and those of long work during a stream (`SparkDriver.beside`).
"""

from __future__ import annotations

import atexit
import os
import re
import resource
import subprocess
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from weakref import WeakSet

from rs_assets.common.scratch import Held, own_folder
from rs_assets.errors import ConfigurationError, EngineError
from rs_assets.spark.settings import JAVA_VARIABLES, SQL_SETTINGS, SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
# A function to call with the session, which is made first if needed; None ends the session, if there is one.
Task = tuple[Callable[["SparkSession"], Any] | None, "Future[Any]"]
# Spark's Python loggers, which write each error of a query as a line of JSON.
QUERY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# How long an interruptible wait sleeps between checks, in seconds.
WAIT_S = 0.5
# Java opens some 400 jars, and a stream the files of its state.
OPEN_FILES = 1024
# The option that says where Java has its temporary files, and where it has them without it.
JAVA_FILES, JAVA_PLACE = "java.io.tmpdir", "/tmp"  # noqa: S108
# How long to wait for a JVM that was asked to end, in seconds.
END_S = 10


class SparkDriver:
    """Owns a session and the thread that calls it; the first call makes the session.

    With `session` that session is borrowed: its SQL settings are applied, and `stop` does not stop it.
    """

    _shared: ClassVar[SparkDriver | None] = None
    _shared_lock: ClassVar[threading.Lock] = threading.Lock()
    _drivers: ClassVar[WeakSet[SparkDriver]] = WeakSet()
    _drivers_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, settings: SparkSettings | None = None, *, session: SparkSession | None = None) -> None:
        self.settings = settings or SparkSettings()
        self._borrowed = session
        self._session: SparkSession | None = None
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        with self._drivers_lock:
            self._drivers.add(self)

    @classmethod
    def shared(cls, settings: SparkSettings | None = None) -> SparkDriver:
        """The driver of this process: Spark has one session a process. `settings` apply only to the first caller."""
        with cls._shared_lock:
            if cls._shared is None:
                cls._shared = cls(settings)
                atexit.register(_stop_at_exit, cls._shared)
            return cls._shared

    @classmethod
    def of(cls, session: SparkSession) -> SparkDriver:
        """The driver that has made `session`; for a session of others one that borrows it."""
        with cls._drivers_lock:
            made = next((driver for driver in cls._drivers if driver.made(session)), None)
        return made or cls(session=session)

    def made(self, session: SparkSession) -> bool:
        """Whether `session` is the one that this driver calls."""
        return self._session is session

    @property
    def started(self) -> bool:
        """Whether a call has made the session, and `stop` has not ended it since."""
        return self._session is not None

    def prepare(self) -> None:
        """Start making the session without waiting for it; an error is raised by the next call."""
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

    def beside(self, function: Callable[[SparkSession], T], *, cancelled: Callable[[], bool]) -> T:
        """Run `function(session)` on a thread of its own, so that other calls do not wait for it; return its result.

        The session has settings of its own. Once `cancelled()`, the jobs of Spark that it runs are cancelled again and
        again until it ends, which raises what Spark raises then.
        """
        future: Future[T] = Future()
        done, tag = threading.Event(), f"rs-{uuid.uuid4().hex[:12]}"
        session = self.call(_own_session)

        def work() -> None:
            try:
                session.sparkContext.addJobTag(tag)
                future.set_result(function(session))
            except BaseException as error:  # noqa: BLE001  passed to the caller unchanged
                future.set_exception(error)
            finally:
                done.set()

        threading.Thread(target=work, name="rs-spark-beside", daemon=True).start()
        while not done.wait(WAIT_S):
            if cancelled():
                self.call(lambda spark: spark.sparkContext.cancelJobsWithTag(tag))
        return future.result()

    def stop(self) -> None:
        """End the thread, and stop the session unless it is borrowed or another driver uses it. May be called twice."""
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
            # While it waits for the next call it must not keep objects of the last call alive.
            del task

    def _done(self, function: Callable[[SparkSession], Any] | None, future: Future[Any]) -> None:
        try:
            if function is None:
                self._end_session()
                future.set_result(None)
            else:
                future.set_result(function(self._ready_session()))
        except BaseException as error:  # noqa: BLE001  passed to the caller unchanged
            future.set_exception(error)

    def _ready_session(self) -> SparkSession:
        if self._session is None or (self._borrowed is None and _has_ended(self._session)):
            self._session = self._borrow(self._borrowed) if self._borrowed else make_session(self.settings)
        return self._session

    @staticmethod
    def _borrow(session: SparkSession) -> SparkSession:
        for key, value in SQL_SETTINGS.items():
            session.conf.set(key, value)
        return session

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is None or self._borrowed is not None or self._is_shared(session):
            return
        for query in session.streams.active:
            query.stop()
        session.stop()
        _end_gateway()

    def _is_shared(self, session: SparkSession) -> bool:
        """Whether another driver calls the same Spark: a process has one, which all that ask for a session get."""
        with self._drivers_lock:
            others = [driver._session for driver in self._drivers if driver is not self]  # noqa: SLF001
        return any(other is not None and other.sparkContext is session.sparkContext for other in others)


def _has_ended(session: SparkSession) -> bool:
    """Whether others have stopped its Spark."""
    return session.sparkContext._jsc is None  # noqa: SLF001  pyspark has no public way to ask


def _own_session(spark: SparkSession) -> SparkSession:
    """A session of the same Spark with a copy of the settings, as Spark makes it for each streaming query."""
    made: Any = type(spark)
    return made(spark.sparkContext, spark._jsparkSession.cloneSession())  # type: ignore[no-any-return]  # noqa: SLF001


def _stop_at_exit(driver: SparkDriver) -> None:
    """Stop it at exit; a second Ctrl-C ends the wait, and the JVM ends by itself."""
    with suppress(KeyboardInterrupt):
        driver.stop()


def make_session(settings: SparkSettings) -> SparkSession:
    """A new session with `settings`, on the Java and jars of `rs-assets setup`; EngineError if it does not start."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException, PySparkRuntimeError
    from pyspark.sql import SparkSession

    from rs_assets.spark import archive
    from rs_assets.spark.java import java_home, names_of_files
    from rs_assets.spark.object_store import s3_jars
    from rs_assets.spark.processor.library import session_jars
    from rs_assets.spark.unneeded import skip_lookup, without_learning
    from rs_assets.spark.workers import worker_environment

    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.update(names_of_files(os.environ))
    own_python = worker_environment(os.environ, one_process=settings.is_one_process)
    os.environ.update(own_python)
    for name, value in settings.environment().items():
        os.environ.setdefault(name, value)
    builder = SparkSession.builder
    jars = session_jars()
    if settings.is_one_process:
        settings = replace(settings, java_options=f"{archive.options(jars)} {settings.java_options}".strip())
    files = _files_of_java(os.environ)
    if files:
        # The last of two such options holds, so that the user's own does.
        settings = replace(settings, java_options=f"-D{JAVA_FILES}={files.folder} {settings.java_options}".strip())
    conf = settings.conf(jars, s3_jars())
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        _begin_gateway(conf, files)
        # On a cluster the jar of the processors comes with the session.
        with without_learning() if settings.is_one_process else nullcontext():
            session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise _not_started(error) from error
    except (Py4JJavaError, PySparkException) as error:
        raise _refused(error) from error
    # A Python that the user has chosen may have other packages.
    if settings.is_one_process and own_python:
        skip_lookup(session)
    _silence(session)
    return session


def _silence(session: SparkSession) -> None:
    """Errors of expressions and queries reach the caller as exceptions; logged they are pages of JSON."""
    from pyspark.logger import PySparkLogger

    session.sparkContext.setLogLevel("OFF")
    for name in QUERY_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True


def _not_started(error: Exception) -> EngineError:
    """Java ended at once; with few files it cannot even read its own, and says so in many ways."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    few = 0 <= files < OPEN_FILES
    return EngineError(
        f"Spark did not start: {error}",
        remedy=f"let this process open more files than {files}: ulimit -n {OPEN_FILES}"
        if few
        else "run `rs-assets setup`; see the text above",
    )


def _refused(error: Exception) -> ConfigurationError:
    """Spark's message about its settings, without the Java stack trace."""
    found = re.findall(r"^(?:Caused by|:).*?([A-Za-z]+(?:Exception|Error): [^\n]{1,300})", str(error), re.MULTILINE)
    return ConfigurationError(
        f"Spark does not start with these settings: {found[-1] if found else str(error).splitlines()[0][:300]}",
        remedy="correct the master (RS_SPARK_MASTER), the memory (RS_DRIVER_MEMORY) or your own Spark settings"
        " (spark_config, SparkSettings(extra=...))",
    )


def _files_of_java(environment: Mapping[str, str]) -> Held | None:
    """Where Java's temporary files are, with the working copies of state; None: it has them where the user says.

    Java removes them when it ends. Those of a killed one are removed by a later process.
    """
    if any(JAVA_FILES in environment.get(name, "") for name in JAVA_VARIABLES):
        return None
    with suppress(OSError):
        return own_folder(JAVA_PLACE)
    return None


def _begin_gateway(conf: Mapping[str, str], files: Held | None) -> None:
    """Start the JVM in its own process group, if there is none yet; it shares the lock of its `files`.

    Otherwise a terminal's signals to the whole group would end it, and with it the batch that is being drained.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:  # noqa: SLF001  pyspark has no public way to begin its JVM
        own = SparkConf().setAll(list(conf.items()))
        # It may live a little longer than a killed driver.
        started = {"process_group": 0, "pass_fds": (files.handle,) if files else ()}
        gateway = launch_gateway(own, started)  # type: ignore[no-untyped-call]
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
        # It ends by itself eventually.
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=END_S)
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
