"""Secrets that people put into addresses are neither stored nor printed, whatever happens to the store."""

import logging
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from rs_assets import Dimension, StreamBuilder
from rs_assets.common.uri import shown_uri
from rs_assets.dagster.place import Place
from rs_assets.errors import CheckpointError
from rs_assets.recovery.savepoints.store import SavepointStore
from rs_assets.runtime.options import SavepointPolicy
from rs_assets.runtime.upkeep.savepoints import restore, savepoint

PASSWORD, TOKEN, LOGIN, SETTING = "geheim-4711", "geheim-0815", "geheim-2024", "774711"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("ftp://me:a/b@host/p", "ftp://***@host/p"),
        ("key:secret@bucket/p", "***@bucket/p"),
        ("http://host:8080/a@b", "http://host:8080/a@b"),
        ("https://host/p?sig=secret#x", "https://host/p"),
        (".rs/savepoints", ".rs/savepoints"),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_who_logs_in(uri, shown):
    assert shown_uri(uri) == shown


def stored(root):
    """All bytes below a folder, and all values of the tables there."""
    for path in root.rglob("*"):
        if path.name == "_delta_log":
            yield repr(DeltaTable(path.parent).to_pyarrow_table().to_pylist())
        if path.is_file():
            yield path.read_bytes().decode("utf-8", "replace")


def test_secrets_in_addresses_are_neither_stored_nor_printed(options, tmp_path, capfd, caplog):
    caplog.set_level(logging.INFO)
    (tmp_path / "a.jsonl").write_text('{"id":1}\n')
    with closing(sqlite3.connect(tmp_path / "users.db")) as database, database:
        database.execute("create table users (id integer, name text)")
        database.execute("insert into users values (1, 'ann')")
    users = Dimension.from_database(
        f"sqlite:///{tmp_path}/users.db?timeout={SETTING}", table="users", schema="id long, name string"
    )
    stream = StreamBuilder.data_stream("shop", "secret").from_file(str(tmp_path / "a.jsonl"), schema="id long")
    pipeline = stream.dim_join(users, on="id", name="named").to_delta("seen").build()
    uri = f"memory://me:{PASSWORD}@host/points?token={TOKEN}"
    options = replace(
        options,
        savepoints=SavepointPolicy(uri=uri, at_end=True),
        metrics_endpoint=f"http://me:{LOGIN}@127.0.0.1:9/v1/metrics",
    )
    said = [repr(options), repr(Place.of(savepoints_uri=uri)), pipeline.describe(), repr(pipeline)]
    report = pipeline.run(options)
    said += [repr(report), *report.warnings]
    taken = savepoint(pipeline.topology, options)
    said.append(repr(taken))
    store = SavepointStore(uri)
    with pytest.raises(CheckpointError) as unknown:
        restore(pipeline.topology, options, savepoint_id="20200101T000000.000000Z-b000042-0a1b2c")
    for path in store.objects():
        store.remove_file(path)
    with pytest.raises(CheckpointError) as spoilt:
        restore(pipeline.topology, options)
    printed = capfd.readouterr()
    said += [str(unknown.value), str(spoilt.value), printed.out, printed.err, caplog.text]
    for text in (*said, *stored(options.home.root)):
        assert [secret for secret in (PASSWORD, TOKEN, LOGIN, SETTING) if secret in text] == [], text[:2000]
