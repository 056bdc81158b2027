"""Stores for savepoints, and a job whose files were made up."""

from __future__ import annotations

import uuid

import pytest

from rs_assets.recovery.savepoints import SavepointStore
from tests.checkpoint.fabricate import FakeJob, fake_job


@pytest.fixture(params=["path", "memory"])
def store(request, tmp_path) -> SavepointStore:
    if request.param == "path":
        return SavepointStore(str(tmp_path / "save points"))
    return SavepointStore(f"memory://{uuid.uuid4().hex}/savepoints")


@pytest.fixture
def local(tmp_path) -> SavepointStore:
    return SavepointStore(str(tmp_path / "store"))


@pytest.fixture
def job(tmp_path) -> FakeJob:
    return fake_job(tmp_path / "rs" / "shop" / "clicks")
