"""The Redis server of the tests: killed, paused and removed, with its own binary or the fetched one."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from redis import exceptions

from rs_assets.errors import ConfigurationError
from rs_assets.testing import RedisServer
from rs_assets.testing.servers import debian
from rs_assets.testing.servers import redis as module


def test_should_keep_what_it_acknowledged_before_a_kill(redis):
    client = redis.client()
    client.set("n", "7")
    redis.kill()
    try:
        assert redis.pid is None
        with pytest.raises(exceptions.ConnectionError):
            client.get("n")
    finally:
        redis.start()
    assert client.get("n") == "7"
    redis.restart()
    assert client.get("n") == "7"


def test_should_answer_nobody_without_its_password_or_while_it_is_paused(redis):
    from redis import Redis

    with pytest.raises(exceptions.AuthenticationError):
        Redis.from_url(redis.url.replace(redis.url.split("@")[0], "redis://")).ping()
    redis.pause()
    try:
        with pytest.raises(exceptions.TimeoutError):
            Redis.from_url(redis.url, socket_timeout=0.1, retry=None).ping()
    finally:
        redis.resume()
    assert redis.client().ping()


@pytest.mark.usefixtures("redis_server")
def test_should_be_gone_with_its_data_when_it_is_closed():
    server = RedisServer()
    with pytest.raises(ConfigurationError, match="was not started"):
        _ = server.url
    with server:
        folder = Path(server.client().config_get("dir")["dir"])
        assert (folder / "redis.conf").stat().st_mode & 0o077 == 0
    assert not folder.exists()


def test_a_missing_binary_should_be_fetched(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigurationError, match="no Redis server is installed") as caught:
        RedisServer().start()
    assert caught.value.remedy == module.FETCH
    with pytest.raises(ConfigurationError, match="cannot be fetched"):
        module.fetch()

    def run(command, folder):
        if command[0] == "apt-get":
            (Path(folder) / "redis-tools.deb").touch()
        else:
            tool = Path(command[-1]) / "usr" / "bin" / module.TOOL
            tool.parent.mkdir(parents=True)
            tool.touch()
        return CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(debian, "_run", run)
    monkeypatch.setattr(debian.shutil, "which", {"apt-get": "apt-get", "dpkg-deb": "dpkg-deb"}.get)
    monkeypatch.setattr(sys, "argv", [module.__name__, "fetch"])
    module.main()
    assert module.find_binary() == module.fetched() / "usr" / "bin" / module.TOOL
