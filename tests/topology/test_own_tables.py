"""A pipeline that writes a table which it reads is refused, however the two addresses are written."""

from __future__ import annotations

import pytest
from dagster import EnvVar

from rs_assets import StreamBuilder
from rs_assets.errors import TopologyError

READ = ("postgresql://me:secret@localhost/shop", "orders")


def build(read, written):
    stream = StreamBuilder.data_stream("shop", "copy").from_postgres(*read, schema="id bigint, ms bigint")
    return stream.to_database(*written).build()


@pytest.mark.parametrize(
    ("url", "table"),
    [
        READ,
        ("postgresql+psycopg://other:word@LOCALHOST:5432/shop", "public.orders"),
        ("postgresql://127.0.0.1/shop?sslmode=require", "orders"),
        ("postgres://:5432/shop", "orders"),
        (EnvVar("SHOP"), "orders"),
    ],
)
def test_the_table_that_is_read_is_refused(monkeypatch, url, table):
    monkeypatch.setenv("SHOP", READ[0])
    with pytest.raises(TopologyError, match="writes the table that the step 'postgres' reads") as refused:
        build(READ, (url, table))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "table"),
    [
        ("postgresql://localhost:5433/shop", "orders"),
        ("postgresql://localhost/other", "orders"),
        ("postgresql://other/shop", "orders"),
        (READ[0], "sales.orders"),
        (READ[0], "Orders"),
        (EnvVar("NOT_SET"), "orders"),
    ],
)
def test_another_table_is_taken(url, table):
    build(READ, (url, table))


def test_a_variable_without_a_value_is_compared_by_its_name():
    with pytest.raises(TopologyError, match="writes the table"):
        build((EnvVar("NOT_SET"), "orders"), (EnvVar("NOT_SET"), "orders"))


def test_a_file_of_sqlite_is_known_by_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "shop.db"
    (tmp_path / "link.db").symlink_to(path)
    stream = StreamBuilder.data_stream("shop", "copy").from_database(
        f"sqlite:///{path}", "events", column="id", schema="id bigint"
    )
    with pytest.raises(TopologyError, match="writes the table"):
        stream.to_sqlite(str(tmp_path / "link.db"), "Events").build()
    stream.to_sqlite(str(tmp_path / "other.db"), "events").build()
