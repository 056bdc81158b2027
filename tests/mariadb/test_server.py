"""The MariaDB server of the tests: killed, restarted and removed; where its binaries come from."""

from __future__ import annotations

from pathlib import Path

import pymysql
import pytest

from rs_assets.common import extras
from rs_assets.errors import ConfigurationError
from rs_assets.testing import MariaDbServer
from rs_assets.testing.servers import debian, mariadb_packages
from rs_assets.testing.servers.mariadb_packages import Binaries


def test_should_keep_what_was_committed_before_a_kill(mariadb, shop):
    mariadb.execute(shop, "CREATE TABLE t (id int)", "INSERT INTO t VALUES (7)")
    with mariadb.connected(shop) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t VALUES (8)")
        mariadb.kill()
        try:
            assert mariadb.pid is None
            with pytest.raises(pymysql.err.OperationalError):
                cursor.execute("COMMIT")
        finally:
            mariadb.start()
    assert mariadb.execute(shop, "SELECT id FROM t") == [(7,)]


def test_databases_should_be_apart(mariadb, shop):
    mariadb.execute(shop, "CREATE TABLE t (id int)")
    other = mariadb.create_database()
    assert other != shop
    assert mariadb.execute(other, "SHOW TABLES") == []


def test_should_name_what_installs_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(mariadb_packages, "find_binaries", lambda: None)
    monkeypatch.setenv("RS_MARIADB", str(tmp_path / "none"))
    monkeypatch.setattr(debian.shutil, "which", lambda _: None)
    with pytest.raises(ConfigurationError, match="no packages of Debian") as refused, MariaDbServer():
        pass
    assert "mariadb-server-core" in refused.value.remedy
    monkeypatch.setattr(extras, "is_installed", lambda extra: extra != "mariadb")
    with pytest.raises(ConfigurationError) as refused, MariaDbServer():
        pass
    assert refused.value.remedy == "python -m pip install 'rs-assets[mariadb]'"


def test_the_folder_of_packages_may_be_named(monkeypatch, tmp_path):
    for name in ("usr/sbin/mariadbd", "usr/share/mysql/mysql_system_tables.sql", "usr/lib/x/libaio.so.1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("create table t (id int);\n")
    monkeypatch.setenv("RS_MARIADB", str(tmp_path))
    found = mariadb_packages.fetch()
    assert found == Binaries(tmp_path)
    assert found.bootstrap() == b"create database mysql;\nuse mysql;\ncreate table t (id int);\n"
    assert found.environment() == {"LD_LIBRARY_PATH": str(tmp_path / "usr/lib/x")}


@pytest.mark.long
def test_should_tell_why_a_server_did_not_start():
    with pytest.raises(ConfigurationError, match="no_such_setting"), MariaDbServer(settings={"no_such_setting": "1"}):
        pass


@pytest.mark.long
def test_should_leave_nothing_after_its_end():
    server = MariaDbServer()
    with pytest.raises(ConfigurationError, match="was not started"):
        server.url()
    with server:
        folder = Path(server.log_file).parent
        assert folder.is_dir()
    assert not folder.exists()
