"""Every kind of error this project raises, in one tree; an error gets its text where it is raised.

    RsError
    ├── UserError                 the definition is wrong: nothing has run, nothing was changed
    │   ├── TopologyError         a pipeline that cannot be built (names, fields, illegal combinations)
    │   │   ├── UnknownFieldError a step names a field that does not exist
    │   │   ├── UnknownMethodError a stream has no method of this name
    │   │   └── SqlError          streaming SQL that is rejected, with line and column
    │   ├── SchemaError           a schema that does not parse, or rows that do not fit it
    │   └── ConfigurationError    a setting, path or option that cannot be used
    ├── StartRefused              the start was refused before a row was written
    │   ├── PipelineBusyError     another run of the pipeline is active
    │   ├── SealedError           the generation ended, and there is new input for it
    │   ├── TopologyChangedError  the state on disk belongs to another topology
    │   └── CheckpointError       a file that the checkpoint needs is missing or damaged
    ├── DataError                 the input is at fault
    │   ├── BadRecordError        a record cannot be parsed and the policy is FAIL
    │   ├── DataLossError         input that was planned is gone or has changed
    │   └── SourceReadError       a source cannot be read (truncated archive, no permission)
    ├── LeaseLostError            another driver has taken over: this one must not commit any more
    ├── StepError                 a user function raised
    ├── SinkError                 a sink could not commit
    │   └── CheckpointHeldError   a sink has rows that it has not flushed: the batch is repeated
    └── EngineError               Spark failed for another reason

Errors keep their facts as attributes and build their text from them: *what* went wrong, *where*
(step, file, offset) and the *remedy*. Values that may be secret are never put into one.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches


class RsError(Exception):
    """Root of all errors; `facts` holds the values in the text, `remedy` the next action.

    >>> error = RsError("the log is gone", remedy="restore it", step="read", file="a.log")
    >>> print(error)
    the log is gone [step=read, file=a.log]
      remedy: restore it
    """

    def __init__(self, what: str, *, remedy: str = "", **facts: object) -> None:
        self.what = what
        self.remedy = remedy
        self.facts: Mapping[str, object] = {key: value for key, value in facts.items() if value is not None}
        super().__init__(what)

    def __str__(self) -> str:
        where = ", ".join(f"{key}={value}" for key, value in self.facts.items())
        text = f"{self.what} [{where}]" if where else self.what
        return f"{text}\n  remedy: {self.remedy}" if self.remedy else text


class UserError(RsError):
    """The definition is wrong; nothing has run and nothing was changed."""


class TopologyError(UserError):
    """A pipeline that cannot be built: names, kinds or combinations that are not allowed."""


class UnknownFieldError(TopologyError):
    """A step names a field that does not exist; the text lists the known fields."""

    def __init__(self, field: str, *, step: str, known: tuple[str, ...], hint: str = "") -> None:
        near = get_close_matches(field, known, n=1) or [name for name in known if name.lower() == field.lower()]
        first = f"did you mean {near[0]!r}? " if near else f"{hint}; else " if hint else ""
        super().__init__(
            f"step {step!r} names the field {field!r}, which does not exist",
            remedy=f"{first}use one of: {', '.join(known)}",
            step=step,
        )
        self.field = field
        self.known = known


class UnknownMethodError(TopologyError, AttributeError):
    """A stream has no method of this name; the text suggests one."""


class SqlError(TopologyError):
    """Streaming SQL that is rejected; `line` and `column`, counted from 1, and `file` for SQL from a file.

    >>> print(SqlError("there is no table 'clicks'", remedy="did you mean 'click'?", line=3, column=8))
    there is no table 'clicks' [line=3, column=8]
      remedy: did you mean 'click'?
    """

    def __init__(
        self, what: str, *, line: int, column: int, file: str | None = None, remedy: str = "", step: str | None = None
    ) -> None:
        super().__init__(what, remedy=remedy, file=file, line=line, column=column, step=step)
        self.line = line
        self.column = column


class SchemaError(UserError):
    """A schema that does not parse, or rows that do not fit the declared one."""


class ConfigurationError(UserError):
    """A setting, path or option that cannot be used."""


class StartRefused(RsError):
    """The start was refused before any row was written."""


class PipelineBusyError(StartRefused):
    """Another run of the same pipeline is active; the text names the holder."""


class SealedError(StartRefused):
    """A bounded input was read to its end and the generation sealed, but there is new input for it."""


class TopologyChangedError(StartRefused):
    """The checkpoint belongs to another topology; the text shows the difference."""


class CheckpointError(StartRefused):
    """A file that the checkpoint needs is missing, damaged or of an unknown version."""


class DataError(RsError):
    """The input is at fault."""


class BadRecordError(DataError):
    """A record cannot be parsed (or has no usable event time) and the policy is FAIL."""


class DataLossError(DataError):
    """Input that was planned for a batch is gone, shrank or changed before it was read."""


class SourceReadError(DataError):
    """A source exists but cannot be read: a truncated archive, no permission, an unknown codec."""


class LeaseLostError(RsError):
    """Another driver has taken over the pipeline, or the lease could not be renewed: nothing more is committed."""


class StepError(RsError):
    """A user function raised; the text names the step, the record and its position in the source."""


class SinkError(RsError):
    """A sink could not commit a batch."""


class StoreBehindError(RsError):
    """A store did not reach the batch that a query waited for."""


class CheckpointHeldError(SinkError):
    """A sink refused a checkpoint, or has not flushed all rows before it; the batch is repeated."""


class EngineError(RsError):
    """Spark failed for a reason that no other class covers; the cause is chained."""


class WorkerStartError(EngineError):
    """Spark gave up on a Python worker that did not start within its fixed ten seconds: the machine is too busy."""
