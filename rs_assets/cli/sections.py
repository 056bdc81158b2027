"""The commands by topic, each in a few words: what `rs-assets --help` shows, without loading a command."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

SECTIONS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "Begin": {
            "init": "a new project that works at once",
            "setup": "get Java, the jars and an archive of Spark's classes",
            "doctor": "what is missing here, and what installs it",
            "list": "the pipelines of the project",
            "ui": "Dagster with the assets, jobs and sensors of the pipelines",
        },
        "Write": {
            "describe": "the steps of a pipeline",
            "check": "let Spark analyse every step, without reading input",
            "rules": "the rules of a pipeline, tested with rows",
            "torture": "the same records in other batches and orders",
            "capture": "a recorded batch as a test of the project",
        },
        "Run": {
            "run": "process all input there is, then stop",
            "start": "process input as it comes, until Ctrl-C",
            "standby": "take a stream over when its driver is gone",
            "collect": "receive messages of MQTT, webhooks and syslog",
            "sql": "run a file of streaming SQL, or ask for statements",
            "deploy": "streaming SQL that Dagster runs, a version each time",
            "deployments": "the state and the versions of what was deployed",
        },
        "Look": {
            "status": "the last batch, watermark and process of each pipeline",
            "lag": "unread input, and when it will have been read",
            "show": "some rows of a table",
            "checkpoints": "the committed batches",
            "state": "the state of a step as rows",
            "dead-letters": "the records that were rejected, with the reasons",
            "why": "what became of a record, step by step",
            "records-of": "the records that a row of a result is made of",
            "lineage": "from a table's version back to the offsets",
            "stores": "the stores of a pipeline",
            "query": "rows of a store",
            "serve": "answer queries of the stores by HTTP",
        },
        "Keep and go back": {
            "savepoint": "copy the checkpoints, also while the stream runs",
            "restore": "pipeline and sinks back to a savepoint",
            "rewind": "pipeline and sinks back to the end of a batch",
            "fork": "begin another pipeline with the state of a savepoint",
            "rescale": "the state in another number of partitions",
            "redrive": "dead letters through the current code, each once",
            "forget": "the rows of a person or another key, everywhere, with a proof",
            "verify": "check the checkpoints, as every start does",
            "compact": "join small files, remove old ones",
        },
        "Partitions by event time": {
            "partitions": "closed and open hours, days or months",
            "backfill": "compute closed ones again, and replace their rows",
            "try": "compare the rows of the current code with those there",
            "promote": "let the code that was tried go on, and replace rows",
            "prove": "compare with what the recorded input gives",
            "audit": "check the ledger of proofs",
        },
    }
)
