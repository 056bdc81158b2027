"""What a source of your own is made of: an object given to `.from_source(source)`.

Most derive a class from `LogSource` (rows that have numbers and can be read again) or from `PollingSource` (rows that
come once). Required for exactly once is one thing: `batch(n)` returns the rows that `stream` returned for batch n.
Both classes see to that; a class with the methods of `SourceReader` has to do it by itself.

====================  ==========================================  ==================================  =================
method                called when                                 on which thread                     may raise
====================  ==========================================  ==================================  =================
LogSource.ends        each batch is planned; a run begins; a      a process of Spark on the driver;   anything
                      sensor looks                                the one that starts the run
LogSource.begins      as `ends`, and after each read              as `ends`, and a worker's           anything
LogSource.read        a batch is computed, or computed again      a Python worker's                   anything
PollingSource.poll    all rows of the last poll are planned       a process of Spark on the driver    anything
PollingSource         the rows of a poll are on the disk          as `poll`                           anything
.spooled
SourceReader.check    once in a run, before a query starts        the one that starts the run         StartRefused,
                                                                                                      DataError
SourceReader.stream   a query starts, and starts again            the driver's                        any RsError
SourceReader.batch    a planned batch is read again: for late     Spark's, of the query               any RsError
                      rows, and the places of bad ones
SourceReader.splits   before and after each batch                 Spark's, of the query               nothing
Watch.begin           before a query starts, and starts again     the driver's                        SourceReadError
Watch.planned, check  before a batch is computed, before the      Spark's, of the query               DataLossError
                      sinks commit
Watch.computed        the batch was read                          Spark's, of the query               DataError
Follower.committed    batches are in Spark's log and the catalog  the journal's                       an RsError
Inspectable.ends      a sensor looks                              Dagster's daemon                    SourceReadError
Lagging.lag           a sensor looks                              Dagster's daemon                    SourceReadError
Verifiable.verify     partitions are computed again               Spark's                             DataLossError
====================  ==========================================  ==================================  =================

"Anything" that is not an `RsError` becomes SourceReadError with the name of the method, and ends the run before
anything of the batch is committed. The object must be picklable and hold no connection: it is sent to the processes
above, and each of them begins with a copy of it. An object with `reader(name)` makes its reader for each use; an object
with the methods of `SourceReader` is used by all runs of the process, and its `name` is that of the step.

>>> class Numbers(LogSource):
...     schema = "n bigint"
...
...     def ends(self):
...         return {"all": 3}
...
...     def read(self, split, start, end):
...         return ({"n": n} for n in range(start, end))
>>> from rs_assets import StreamBuilder
>>> stream = StreamBuilder.data_stream("shop", "numbers").from_source(Numbers())
>>> print(stream.to_print().build().describe())
shop.numbers  fingerprint ...
  numbers  custom_source  [Numbers]
  print    print_sink <- numbers
"""

from rs_assets.checkpoint.source_log import SourceBatch, SourceLog
from rs_assets.connectors.own.log import LogSource
from rs_assets.connectors.own.polling import PollingSource
from rs_assets.connectors.source import (
    Complete,
    DeadLettering,
    Ends,
    EventuallyVisible,
    Followed,
    Follower,
    Inspectable,
    Known,
    Lag,
    Lagging,
    Metered,
    Ordered,
    Positioned,
    Positions,
    Reading,
    SourceReader,
    Start,
    Verifiable,
    Watch,
    Watched,
    Watching,
)
from rs_assets.records.columns import ADDRESS, REASON

__all__ = [
    "ADDRESS",
    "REASON",
    "Complete",
    "DeadLettering",
    "Ends",
    "EventuallyVisible",
    "Followed",
    "Follower",
    "Inspectable",
    "Known",
    "Lag",
    "Lagging",
    "LogSource",
    "Metered",
    "Ordered",
    "PollingSource",
    "Positioned",
    "Positions",
    "Reading",
    "SourceBatch",
    "SourceLog",
    "SourceReader",
    "Start",
    "Verifiable",
    "Watch",
    "Watched",
    "Watching",
]
