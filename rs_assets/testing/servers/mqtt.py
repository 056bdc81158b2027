"""A real MQTT broker for tests, demonstrations and benchmarks: Mosquitto on loopback, without a container.

Its binary is that of PATH or of the usual places, else the one of Debian's package, which `python -m
rs_assets.testing.servers.mqtt` fetches (0.8 MB) and unpacks next to this project's jars.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from rs_assets.connectors.mqtt.broker import MqttBroker as Address
from rs_assets.errors import ConfigurationError, RsError
from rs_assets.testing.servers.debian import unpack
from rs_assets.testing.servers.process import LocalServer, ServerProcess, free_ports, settle

FETCH: Final = "python -m rs_assets.testing.servers.mqtt"
# The package, and those of its libraries that a system may lack.
PACKAGES: Final = ("mosquitto", "libmosquitto1", "libcjson1", "libdlt2", "libwrap0")
INSTALLED: Final = ("/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto", "/opt/homebrew/sbin/mosquitto")
# How long a message may be under way.
PATIENCE_S: Final = 30.0
# What is acknowledged is on the disk, and nothing that waits for a client is dropped.
SETTINGS: Final[Mapping[str, str]] = {
    "persistence": "true",
    "autosave_interval": "1",
    "autosave_on_changes": "true",
    "max_queued_messages": "0",
    "log_dest": "stderr",
}


def fetched_folder() -> Path:
    """Where the packages are unpacked."""
    return Path(sys.prefix) / "share" / "rs_assets" / "brokers" / "mosquitto"


def find_binary() -> Path | None:
    """The broker's binary; None if there is none."""
    on_path = shutil.which("mosquitto")
    places = [Path(on_path)] if on_path else []
    places += [*map(Path, INSTALLED), fetched_folder() / "usr" / "sbin" / "mosquitto"]
    return next((place for place in places if place.is_file()), None)


def fetch() -> Path:
    """The binary, fetched from Debian if there is none; ConfigurationError where that is not possible."""
    there = find_binary()
    if there is not None:
        return there
    why = unpack(PACKAGES, fetched_folder())
    if why:
        raise ConfigurationError(
            f"there is no Mosquitto, and Debian's was not fetched: {why}",
            remedy="install it, so that `mosquitto` is in PATH",
        )
    return fetched_folder() / "usr" / "sbin" / "mosquitto"


class MqttBroker(LocalServer):
    """A Mosquitto broker; a context manager that starts and removes it.

    `settings` are settings in addition to those that keep every acknowledged message. With `username` and `password`
    clients have to log in. The data is in a temporary folder, which is removed with the broker.

        with MqttBroker() as broker:
            with broker.listening("plant/#") as seen:
                broker.publish("plant/7", [b"21.5", b"21.7"])
    """

    called = "the MQTT broker"
    start_timeout_s = 20

    def __init__(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        username: str | None = None,
        password: str | None = None,
    ) -> None:
        super().__init__()
        self._settings = {**SETTINGS, **(settings or {})}
        self._login = (username, password)
        self._port = 0

    @property
    def url(self) -> str:
        """The address for clients; the same after restarts."""
        if not self._port:
            raise ConfigurationError("the MQTT broker was not started", remedy="use it in a with statement")
        return f"mqtt://127.0.0.1:{self._port}"

    def close(self) -> None:
        """Kill the broker and remove its data; may be called twice."""
        self.kill()
        super().close()

    def publish(self, topic: str, payloads: Iterable[bytes | str], *, qos: int = 1, retain: bool = False) -> int:
        """Publish messages in their order; return their number, when the broker has acknowledged all of them."""
        client = self._address().client("", clean_session=True)
        self._address().connect(client)
        client.loop_start()
        try:
            sent = [client.publish(topic, payload, qos=qos, retain=retain) for payload in payloads]
            for each in sent:
                each.wait_for_publish(PATIENCE_S)
                if not each.is_published():
                    raise ConfigurationError("the broker has not acknowledged a message")
        finally:
            client.disconnect()
            client.loop_stop()
        return len(sent)

    @contextlib.contextmanager
    def listening(self, topics: str, *, qos: int = 1) -> Iterator[list[tuple[str, bytes]]]:
        """The topics and payloads of the messages that are published within the block, and retained ones."""
        seen: list[tuple[str, bytes]] = []
        granted: list[object] = []
        client = self._address().client("", clean_session=True)
        client.on_message = lambda _client, _data, message: seen.append((message.topic, bytes(message.payload)))
        client.on_subscribe = lambda *_: granted.append(True)
        self._address().connect(client)
        client.loop_start()
        try:
            client.subscribe(topics, qos)
            settle(lambda: granted, "the subscription was not confirmed")
            yield seen
        finally:
            client.disconnect()
            client.loop_stop()

    def _address(self) -> Address:
        username, password = self._login
        return Address(url=self.url, username=username, password=password)

    def _prepare(self) -> ServerProcess:
        binary = fetch()
        self._folder = folder = Path(tempfile.mkdtemp(prefix="rs-mqtt-"))
        self._port = self._port or free_ports()[0]
        file = folder / "mosquitto.conf"
        lines = [f"listener {self._port} 127.0.0.1", f"persistence_location {folder}/", *self._access(folder, binary)]
        # As root it would look for a user of its own, and drop its rights to the data.
        lines += ["user root"] if os.geteuid() == 0 else []
        file.write_text("\n".join([*lines, *(f"{key} {value}" for key, value in self._settings.items()), ""]))
        command = [str(binary), "-c", str(file)]
        return ServerProcess([*_libraries(binary), *command], log_file=folder / "mosquitto.log", scratch=folder)

    def _access(self, folder: Path, binary: Path) -> Sequence[str]:
        username, password = self._login
        if username is None:
            return ["allow_anonymous true"]
        passwords = folder / "passwords"
        passwd = binary.parent.parent / "bin" / "mosquitto_passwd"
        command = [*_libraries(binary), str(passwd), "-c", "-b", str(passwords), username, password or ""]
        subprocess.run(command, check=True, capture_output=True)
        return ["allow_anonymous false", f"password_file {passwords}"]

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False


def _libraries(binary: Path) -> list[str]:
    """The start of a command that lets a fetched binary find its libraries."""
    found = sorted({str(each.parent) for each in binary.parents[2].glob("usr/lib/*/libmosquitto.so.1")})
    fetched = fetched_folder() in binary.parents
    return ["env", f"LD_LIBRARY_PATH={':'.join(found)}"] if fetched and found else []


def main() -> int:
    """Fetch the broker; the exit code."""
    try:
        print(fetch())  # noqa: T201  the command's output
    except RsError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
