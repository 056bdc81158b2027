"""The protocols of a user-defined sink: an object with the methods of `SinkWriter`, passed to `.to(sink)`.

A sink that stages a batch invisibly, commits it atomically and stores its `BatchMark` in the same commit has each row
exactly once. Further protocols are optional: `Rewinding` (go back to another batch; without it the pipeline cannot be
rolled back), `Beginning` (handle existing rows when a new generation begins; without it the sink gets them all again,
in batches whose mark has that generation), `Fencing` (remember the last writer), `Watched` (report what others did to
the rows), `Closing` (close a connection) and `SystemMessageListener` (receive splits and checkpoints).

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
from rs_assets.connectors.sink import (
    BatchMark,
    Beginning,
    Claim,
    Closing,
    Fencing,
    LastWriter,
    Rewinding,
    SinkChange,
    SinkWriter,
    Staged,
    Watched,
)

__all__ = [
    "BatchMark",
    "Beginning",
    "Claim",
    "Closing",
    "Fencing",
    "LastWriter",
    "Rewinding",
    "SinkChange",
    "SinkWriter",
    "Staged",
    "SystemMessageListener",
    "Watched",
]
