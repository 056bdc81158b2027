"""The Delta sink in S3, without Spark: exactly once, one driver at a time, whatever the network loses."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from rs_assets.common.storage import use_storage
from rs_assets.connectors.dead_letters import SCHEMA, DeadLetters, dead_letters_of
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import LeaseLostError, RsError, SinkError
from tests.s3.lossy import losing
from tests.s3.rows import numbers_in, table, versions
from tests.sinks.frames import mark, numbers, write

MODES = ["append", *(pytest.param(mode, marks=pytest.mark.long) for mode in ("upsert", "complete"))]


def writer(bucket, mode="append"):
    return DeltaWriter("rows", f"{bucket}/t", mode, keys=("n",) if mode == "upsert" else ())


def test_a_repeated_batch_is_written_once_by_any_later_start(bucket):
    for batch in range(3):
        for _ in range(2):
            write(writer(bucket), numbers(batch * 2, batch * 2 + 1), mark(batch))
    assert numbers_in(f"{bucket}/t") == [0, 1, 2, 3, 4, 5]
    assert versions(f"{bucket}/t") == 3


def test_files_of_a_crash_before_the_commit_are_no_rows(bucket, s3):
    sink = writer(bucket)
    write(sink, numbers(1), mark(0))
    sink.stage(numbers(2, 3), mark(1))
    write(writer(bucket), numbers(2, 3), mark(1))
    assert numbers_in(f"{bucket}/t") == [1, 2, 3]
    stored = s3.client().list_objects_v2(Bucket=bucket.removeprefix("s3://"))["Contents"]
    lost = {key for each in stored if (key := each["Key"]).endswith(".parquet")}
    lost -= {uri.removeprefix(f"{bucket}/") for uri in table(f"{bucket}/t").file_uris()}
    # A vacuum sees what the crash left.
    assert {f"t/{name}" for name in table(f"{bucket}/t").vacuum(0, enforce_retention_duration=False, full=True)} == lost
    assert len(lost) == 2


@pytest.mark.parametrize("mode", MODES)
def test_a_driver_that_sleeps_between_check_and_commit_is_refused(bucket, mode):
    old, new = writer(bucket, mode), writer(bucket, mode)
    write(old, numbers(1), mark(0))
    assert not old.committed(mark(1))
    staged = old.stage(numbers(2), mark(1))
    write(new, numbers(3), mark(1, token=2))
    before = numbers_in(f"{bucket}/t")
    with pytest.raises(LeaseLostError):
        staged.commit()
    with pytest.raises(LeaseLostError):
        old.committed(mark(2))
    assert numbers_in(f"{bucket}/t") == before


def test_of_many_drivers_that_commit_one_batch_at_once_one_does(bucket):
    write(writer(bucket), numbers(0), mark(0))
    rivals = [writer(bucket) for _ in range(8)]
    for each in rivals:
        assert not each.committed(mark(1))
    staged = [each.stage(numbers(n), mark(1)) for n, each in enumerate(rivals, 1)]
    together = threading.Barrier(len(rivals))

    def commit(one):
        together.wait()
        try:
            return one.commit()
        except RsError:
            return 0

    with ThreadPoolExecutor(len(rivals)) as pool:
        assert sum(pool.map(commit, staged)) == 1
    assert len(numbers_in(f"{bucket}/t")) == 2


@pytest.mark.long
def test_other_writers_of_the_table_are_no_rivals(bucket):
    mine, theirs = writer(bucket), writer(bucket)
    write(mine, numbers(1), mark(0))
    staged = mine.stage(numbers(2), mark(1))
    write(theirs, numbers(3), mark(0, pipeline="p2"))
    assert staged.commit() == 1
    assert write(mine, numbers(4), mark(2)) == 1
    assert numbers_in(f"{bucket}/t") == [1, 2, 3, 4]


def test_a_column_with_nan_has_no_range(bucket):
    """Arrow leaves NaN out of it, and Spark takes NaN for the greatest number: it would skip the file."""
    write(writer(bucket), numbers(1, 2, x=pa.array([1.0, float("nan")]), y=pa.array([1.0, 2.0])), mark(0))
    found = pa.table(table(f"{bucket}/t").get_add_actions(flatten=True)).to_pydict()
    assert set(found["max.y"]) == {1.0, 2.0}
    assert sorted(found["max.x"], key=str) == [1.0, None]


@pytest.mark.long
def test_a_table_that_was_replaced_is_noticed(bucket, s3):
    sink = writer(bucket)
    write(sink, numbers(1), mark(0))
    name = bucket.removeprefix("s3://")
    for each in s3.client().list_objects_v2(Bucket=name)["Contents"]:
        s3.client().delete_object(Bucket=name, Key=each["Key"])
    with pytest.raises(SinkError):
        write(sink, numbers(2), mark(1))


@pytest.mark.long
def test_it_goes_back_to_an_earlier_batch(bucket):
    sink = writer(bucket)
    for batch in range(3):
        write(sink, numbers(batch), mark(batch))
    sink.rewind(mark(0), mark(0, generation=2, token=2), 2)
    assert numbers_in(f"{bucket}/t") == [0]
    write(writer(bucket), numbers(7), mark(1, generation=2, token=2))
    assert numbers_in(f"{bucket}/t") == [0, 7]


@pytest.mark.parametrize(
    "lost", ["PUT .*_delta_log", "PUT .*parquet", "POST .*uploadId"], ids=["entry", "part", "file"]
)
def test_an_answer_that_was_lost_makes_no_row_twice(bucket, s3, tmp_path, lost):
    """The server has done what it was asked, and the client gets an error."""
    write(writer(bucket), numbers(1), mark(0))
    with losing(urlsplit(s3.endpoint).port, lost, tmp_path / "lost") as address:
        use_storage({**s3.options, "AWS_ENDPOINT_URL": address})
        try:
            write(writer(bucket), numbers(2), mark(1))
        except (RsError, OSError):
            write(writer(bucket), numbers(2), mark(1))
        assert (tmp_path / "lost").exists()
        write(writer(bucket), numbers(3), mark(2))
        assert numbers_in(f"{bucket}/t") == [1, 2, 3]


@pytest.mark.long
def test_a_server_that_does_not_answer_for_a_while_delays_a_commit(bucket, s3):
    sink = writer(bucket)
    write(sink, numbers(1), mark(0))
    staged = sink.stage(numbers(2), mark(1))
    s3.pause()
    try:
        done: list[int] = []
        thread = threading.Thread(target=lambda: done.append(staged.commit()))
        thread.start()
        thread.join(0.5)
        assert not done
    finally:
        s3.resume()
    thread.join(60)
    assert done == [1]
    assert numbers_in(f"{bucket}/t") == [1, 2]


def test_dead_letters_in_a_bucket_are_written_once_and_fenced(bucket):
    letters = DeadLetters(f"{bucket}/letters")
    row = dict.fromkeys(SCHEMA.names) | {"namespace": "shop", "job": "clicks"}
    rows = pa.Table.from_pylist([row], schema=SCHEMA)
    assert [letters.write(rows, mark(0, token=2)) for _ in range(2)] == [1, 0]
    with pytest.raises(LeaseLostError):
        letters.write(rows, mark(1, token=1))
    assert dead_letters_of(letters.path, "shop", "clicks").num_rows == 1
