"""The protocols of a user-defined sink: an object with the methods of `SinkWriter`, passed to `.to(sink)`.

For a system with a client derive a class from `BatchSink`: it has `write(rows, mark)` and leaves the rest to the base
class. The protocols are for sinks that do more.

A sink that stages a batch invisibly, commits it atomically and stores its `BatchMark` in the same commit has each row
exactly once. Further protocols are optional: `Rewinding` (go back to another batch; without it the pipeline cannot be
rolled back), `Beginning` (handle existing rows when a new generation begins; without it the sink gets them all again,
in batches whose mark has that generation), `Fencing` (remember the last writer), `Watched` (report what others did to
the rows), `Closing` (close a connection), `Refusing` (send rows to the dead letters) and `SystemMessageListener`
(receive splits and checkpoints).

>>> class Printed:
...     name = "printed"
...
...     def location(self):
...         return "the terminal"
...
...     def committed(self, mark):
...         return False
...
...     def last_committed(self, mark):
...         return None
...
...     def stage(self, batch, mark):
...         rows = batch.collect()
...         return Staged(lambda: len(rows))
>>> isinstance(Printed(), Closing), Staged(lambda: 3).commit()
(False, 3)
"""

from rs_assets.catalog.offsets.messages import SystemMessageListener
from rs_assets.connectors.own.batch_sink import BatchSink, PartMark, RowsRefused
from rs_assets.connectors.sink import (
    BatchMark,
    Beginning,
    Claim,
    Closing,
    Fencing,
    LastWriter,
    RefusedRow,
    Refusing,
    Rewinding,
    SinkChange,
    SinkWriter,
    Staged,
    Watched,
)

__all__ = [
    "BatchMark",
    "BatchSink",
    "Beginning",
    "Claim",
    "Closing",
    "Fencing",
    "LastWriter",
    "PartMark",
    "RefusedRow",
    "Refusing",
    "Rewinding",
    "RowsRefused",
    "SinkChange",
    "SinkWriter",
    "Staged",
    "SystemMessageListener",
    "Watched",
]
