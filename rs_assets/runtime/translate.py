"""Translates Spark's exceptions to ours."""

from __future__ import annotations

import re

from rs_assets.common.errors_wire import from_wire
from rs_assets.errors import (
    CheckpointError,
    DataLossError,
    EngineError,
    RsError,
    SourceReadError,
    TopologyChangedError,
    WorkerStartError,
)

# Parts of Spark's texts that identify errors; the first match decides.
FILE = re.compile(r"file:[^\s,;]+?(?=[.]?\s|[,;]|$)")
PUT_BACK = (
    "put it back; or, if that cannot be, begin a new generation (--new-generation),"
    " of a change feed from a later version on (starting_version=n)"
)
WRITABLE = "check that the disk is not mounted read-only, and that this user may write there, then start again"
KNOWN: tuple[tuple[str, type[RsError], str, str], ...] = (
    ("FAILED_READ_FILE.FILE_NOT_EXIST", DataLossError, "a file that was planned for the batch is gone", PUT_BACK),
    ("FAILED_READ_FILE", SourceReadError, "a file cannot be read", "replace the file by a whole one and start again"),
    # Before the condition of the state: such a checkpoint is whole.
    (
        "No space left on device",
        EngineError,
        "the disk is full",
        "make room, also where temporary files are (/tmp), and start again: the batch is computed again",
    ),
    *(
        (mark, EngineError, "a folder of the home or of a table cannot be written", WRITABLE)
        for mark in ("Read-only file system", "(Permission denied)", "Permission denied (os error 13)", "Mkdirs failed")
    ),
    ("CANNOT_LOAD_STATE_STORE", CheckpointError, "the state cannot be loaded", "restore the checkpoint from a copy"),
    ("CONCURRENT_STREAM_LOG_UPDATE", CheckpointError, "another driver writes to this checkpoint", "stop the other one"),
    ("STREAMING_CHECKPOINT_MISSING_METADATA", CheckpointError, "the checkpoint has lost its metadata", "restore it"),
    (
        "KAFKA_DATA_LOSS",
        DataLossError,
        "unread records of Kafka are gone",
        "see on_data_loss of from_kafka",
    ),
    # Spark's connector on an executor, and in the plan of a batch, where it has no error condition.
    (
        "Some data may have been lost because they are not available in Kafka",
        DataLossError,
        "unread records of Kafka are gone",
        "see on_data_loss of from_kafka",
    ),
    (
        "UnknownTopicOrPartitionException",
        SourceReadError,
        "a Kafka topic does not exist",
        "create it, or correct its name; on_data_loss='continue' continues without it",
    ),
    (
        "TopicAuthorizationException",
        EngineError,
        "this user may not use a topic of Kafka as the pipeline does",
        "let it read the topics of sources and write to those of sinks, then start again",
    ),
    (
        "SaslAuthenticationException",
        EngineError,
        "Kafka refuses the login",
        "check username, password and mechanism, then start again",
    ),
    (
        "LoginException",
        EngineError,
        "Kafka's client gets no token",
        "see that the service of token_url answers Spark's executors, and that its tokens are JSON Web Tokens",
    ),
    (
        "SslAuthenticationException",
        EngineError,
        "Kafka and Spark do not trust each other's certificates",
        "check ca_file, certificate_file and key_file, then start again",
    ),
    (
        "Python worker failed to connect back",
        WorkerStartError,
        "a Python worker did not start within the ten seconds that Spark waits for it",
        "the machine is too busy: start again, with fewer pipelines at a time or fewer cores for Spark",
    ),
    (
        "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
        SourceReadError,
        "rows of a table that is read were changed",
        "read all its changes: from_delta(..., changes=True); or begin a new generation (--new-generation)",
    ),
    (
        "DELTA_SOURCE_IGNORE_DELETE",
        SourceReadError,
        "rows of a table that is read were removed",
        "read all its changes: from_delta(..., changes=True); or begin a new generation (--new-generation)",
    ),
    (
        "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE",
        SourceReadError,
        "columns of a table that is read were renamed, dropped or replaced",
        "begin a new generation (--new-generation), which reads all rows with the new columns",
    ),
    (
        "DELTA_MISSING_CHANGE_DATA",
        SourceReadError,
        "a table that is read had no change feed when some of its versions were made",
        "read from the version since which it has one: from_delta(..., changes=True, starting_version=n)",
    ),
    *(
        (
            condition,
            DataLossError,
            "the log of a table has lost versions that were not read yet",
            "start again: the next start names them, and what to do",
        )
        for condition in (
            "DELTA_LOG_FILE_NOT_FOUND",
            "DELTA_VERSION_NOT_FOUND",
            "DELTA_VERSIONS_NOT_CONTIGUOUS",
            "DELTA_TRUNCATED_TRANSACTION_LOG",
        )
    ),
    *(
        (
            condition,
            TopologyChangedError,
            "the state has other columns than the steps have now",
            "go back to the code that wrote it (--keep-state); or forget it: --reset-step NAME, or --new-generation",
        )
        for condition in (
            "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
            "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
            "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
        )
    ),
)


# SQLSTATE classes of invalid values, not of the engine: 22 data, P0 raise_error(), 38 and 39 user functions.
OF_VALUES = re.compile(r"SQLSTATE: (22|P0|38|39)[0-9A-Z]{3}")
OF_VALUES_REMEDY = "correct the expression, or let bad_records='quarantine' find such records, with step and line"
# The beginning of the plan that Spark adds to an error: of a running query, and of one that it refuses to start.
PLAN = re.compile(r"=== Streaming Query ===|;\n~")
# The beginning of a py4j text, before the error.
CALLING = "An error occurred while calling"


def translate(error: BaseException, *, query: str) -> RsError:
    """`error` as one of ours: sent by a worker, recognised by Spark's condition, or an EngineError.

    The cause of EngineError is `error` itself; its text is the first line of Spark's.
    """
    if isinstance(error, RsError):
        return error
    # After that comes the query's plan, which contains the texts of errors that did not happen.
    text = PLAN.split(str(error), maxsplit=1)[0]
    carried = from_wire(text)
    if carried is not None:
        return carried
    for mark, kind, what, remedy in KNOWN:
        if mark in text:
            file = FILE.search(text)
            cause = _cause(text) or first_line(text)
            return kind(what, remedy=remedy, query=query, file=file.group() if file else None, spark=cause)
    remedy = OF_VALUES_REMEDY if OF_VALUES.search(text) else "the cause is chained to this error"
    return EngineError(first_line(text), remedy=remedy, query=query)


def _cause(text: str) -> str | None:
    """The innermost cause in a Java stack trace."""
    causes = re.findall(r"Caused by: ([^\n]{1,200})", text)
    return causes[-1] if causes else None


def first_line(text: str) -> str:
    """The most useful line: the last of a worker's Python traceback, else the first."""
    told = (line.removeprefix(": ") for line in text.split("JVM stacktrace", maxsplit=1)[0].splitlines())
    lines = [line for line in told if line.strip() and not line.startswith(CALLING)]
    python = [line for line in lines if re.match(r"[A-Za-z_.]+(Error|Exception|Interrupt)\b", line)]
    line = python[-1] if python else lines[0] if lines else "Spark failed without a message"
    cause = _cause(text)
    return f"{line[:400]} ({cause})" if cause else line[:400]
