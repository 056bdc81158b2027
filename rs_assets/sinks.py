"""What a sink of your own is made of: an object with the methods of `SinkWriter`, given to `.to(sink)`.

A sink that stages a batch out of sight, commits it in one step and remembers its `BatchMark` in the same step has each
row exactly once. Further protocols are for sinks that can more: `Rewinding` (go back to another batch; without it the
pipeline cannot go anywhere), `Beginning` (say what a new generation does to the rows that are there; without it the
sink gets them all again, in batches whose mark has that generation), `Fencing` (remember who wrote last), `Watched`
(tell what others did to the rows), `Closing` (give a connection back) and `SystemMessageListener` (hear of splits and
checkpoints).

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
