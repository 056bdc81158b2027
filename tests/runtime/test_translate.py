"""Spark's exceptions as ours: what decides, and what must not."""

import pytest

from rs_assets.common.errors_wire import to_wire
from rs_assets.errors import CheckpointError, DataLossError, EngineError, SinkError, SourceReadError
from rs_assets.runtime.translate import translate


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[FAILED_READ_FILE.FILE_NOT_EXIST] file:/in/a.json gone", DataLossError),
        ("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file:/in/a.gz.", SourceReadError),
        ("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] error", CheckpointError),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update", CheckpointError),
        ("java.io.IOException: No space left on device", EngineError),
        ("something that nobody knows", EngineError),
        ("", EngineError),
    ],
)
def test_spark_s_condition_decides_the_class(text, kind):
    found = translate(RuntimeError(text), query="q")
    assert type(found) is kind
    assert found.facts["query"] == "q"
    assert found.remedy


@pytest.mark.parametrize(
    "cause",
    [
        "java.io.FileNotFoundException: /home/state/0/0/.20.changelog.TID71.tmp (Read-only file system)",
        "java.io.FileNotFoundException: /home/state/0/0/.20.changelog.TID71.tmp (Permission denied)",
        "java.io.IOException: Mkdirs failed to create file:/home/tables/_rs_staged/a",
        "java.io.IOException: No space left on device",
    ],
)
def test_a_checkpoint_on_a_disk_that_cannot_be_written_is_not_to_be_replaced(cause):
    found = translate(RuntimeError(f"[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] error\nCaused by: {cause}"), query="q")
    assert (type(found), found.facts["spark"]) == (EngineError, cause)
    assert "start again" in found.remedy


def test_a_full_disk_may_be_that_of_temporary_files_and_earlier_batches_are_committed():
    found = translate(RuntimeError("java.io.IOException: No space left on device"), query="q")
    assert "/tmp" in found.remedy
    assert "committed" not in found.remedy


def test_what_cannot_be_written_is_named():
    found = translate(RuntimeError("/home/offsets/.15.tmp (Read-only file system)"), query="q")
    assert found.facts["spark"] == "/home/offsets/.15.tmp (Read-only file system)"


def test_the_file_is_named():
    found = translate(RuntimeError("[FAILED_READ_FILE.NO_HINT] while reading file:/in/a%20b.gz. More"), query="q")
    assert found.facts["file"] == "file:/in/a%20b.gz"


def test_an_error_that_a_worker_sent_comes_out_whole():
    sent = SinkError("no space", remedy="free some", table="t")
    found = translate(RuntimeError(f"org.apache.spark: {to_wire(sent)} at java.lang"), query="q")
    assert (type(found), found.what, found.facts) == (SinkError, "no space", {"table": "t"})


@pytest.mark.parametrize("begin", ["\n=== Streaming Query ===\n", ";\n~"], ids=["running", "refused at the start"])
def test_the_plan_behind_the_message_says_nothing(begin):
    plan = f"Filter raise_error({to_wire(DataLossError('never happened'))}) FAILED_READ_FILE"
    found = translate(RuntimeError(f"division by zero{begin}{plan}"), query="q")
    assert (type(found), found.what) == (EngineError, "division by zero")


def test_ours_stay_as_they_are():
    error = SinkError("no space")
    assert translate(error, query="q") is error


def test_a_python_traceback_is_told_by_its_last_line_and_the_cause():
    text = "Job aborted\nTraceback\n  File x\nValueError: three\nJVM stacktrace:\nCaused by: java.io.IOException: pipe"
    assert translate(RuntimeError(text), query="q").what == "ValueError: three (java.io.IOException: pipe)"


def test_what_py4j_says_first_says_nothing():
    text = "An error occurred while calling o3807.getResult.\n: org.apache.spark.SparkException: Job aborted"
    assert translate(RuntimeError(text), query="q").what == "org.apache.spark.SparkException: Job aborted"


def test_an_error_of_values_has_a_remedy():
    found = translate(RuntimeError("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"), query="q")
    assert "bad_records='quarantine'" in found.remedy
