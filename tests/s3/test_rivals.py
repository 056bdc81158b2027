"""Drivers of three homes with only S3 in common want one pipeline; killed, wiped and paused, each row is there once."""

from __future__ import annotations

import pytest

from tests.s3.rivals import play


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.parametrize("leases", ["s3", "postgres"])
def test_each_batch_is_written_once(tmp_path, bucket, s3, monkeypatch, request, leases):
    for name, value in {**s3.options, "AWS_ALLOW_HTTP": "true", "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RS_CATALOG", f"{bucket}/catalog")
    if leases == "postgres":
        monkeypatch.setenv("RS_LEASES", request.getfixturevalue("database"))
    rivals = play(tmp_path, bucket, seed=7, disturbances=6)
    assert rivals.done["batches"] > 1
    assert rivals.outcomes().keys() <= {"ran", "PipelineBusyError", "LeaseLostError", "CheckpointError"}
