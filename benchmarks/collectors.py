"""Messages of MQTT into the log of a collector, against the client alone; and from the log, against a followed file."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.bench import Bench
from benchmarks.measure import Figure
from rs_assets import RunOptions, StreamBuilder
from rs_assets.common.home import Home
from rs_assets.connectors.collector.collecting import collect
from rs_assets.connectors.collector.log import CollectedLog
from rs_assets.connectors.collector.messages import Message
from rs_assets.connectors.collector.writing import LogWriter
from rs_assets.connectors.mqtt.broker import MqttBroker as Address
from rs_assets.connectors.mqtt.collector import MqttCollector
from rs_assets.testing import MqttBroker

if TYPE_CHECKING:
    from rs_assets.stream.builder import DataStreamSource
    from rs_assets.stream.data_stream import DataStream

# Of the rows of a benchmark: how many are one message by MQTT, and one in the log that is read.
INTO, FROM = 100, 10
PAYLOAD = b'{"machine": %d, "celsius": 21.5}'
SCHEMA = "machine bigint, celsius double"
# The broker keeps its queue in memory: its disk is not measured.
SETTINGS = {"autosave_on_changes": "false", "autosave_interval": "0"}


def collector_figures(bench: Bench) -> Iterator[Figure]:
    """See the module."""
    bench.say("MQTT into the log of a collector")
    with MqttBroker(settings=SETTINGS) as broker, bench.place() as folder:
        count = max(bench.rows // INTO, 1)
        yield _figure(
            bench,
            "MQTT into the log, QoS 1, against the client alone",
            count,
            lambda number: _into_log(broker, count, folder / f"log-{number}"),
            lambda number: _alone(broker, count, f"alone-{number}"),
        )
    bench.say("from the log of a collector")
    with bench.place() as folder:
        count = max(bench.rows // FROM, 1)
        (folder / "lines").mkdir()
        (folder / "lines" / "a.jsonl").write_bytes(b"".join(PAYLOAD % n + b"\n" for n in range(count)))
        with LogWriter(folder / "log") as log:
            for first in range(0, count, 10_000):
                log.append(
                    [Message(PAYLOAD % n, {"topic": "plant/7"}) for n in range(first, min(count, first + 10_000))]
                )
        yield _figure(
            bench,
            "from the log, against a followed file",
            count,
            lambda _: _read(bench, lambda begin: begin.from_mqtt(
                "mqtt://localhost", "plant/7", schema=SCHEMA, log=str(folder / "log"), collect=False
            )),
            lambda _: _read(bench, lambda begin: begin.from_file(
                str(folder / "lines"), schema=SCHEMA, tail=True, max_rows_per_batch=100_000
            )),
        )  # fmt: skip


def _figure(bench: Bench, what: str, count: int, ours: Callable[[int], float], other: Callable[[int], float]) -> Figure:
    taken = [(ours(number), other(number)) for number in range(bench.warm_up + bench.pairs)][bench.warm_up :]
    mine, theirs = (statistics.median(seconds) for seconds in zip(*taken, strict=True))
    return Figure(
        benchmark="collectors",
        what=what,
        value=statistics.median(a / b for a, b in taken),
        unit="x",
        note=f"{count / mine:,.0f} messages/s against {count / theirs:,.0f}",
    )


def _waiting(broker: MqttBroker, count: int, client_id: str) -> Address:
    """A session with `count` messages that wait for it."""
    address = Address(url=broker.url)
    stop = threading.Event()
    client = address.client(client_id, clean_session=False)
    client.on_subscribe = lambda *_: stop.set()
    address.connect(client)
    client.loop_start()
    client.subscribe("plant/#", 1)
    stop.wait()
    client.disconnect()
    client.loop_stop()
    broker.publish("plant/7", [PAYLOAD % n for n in range(count)])
    return address


def _into_log(broker: MqttBroker, count: int, folder: Path) -> float:
    """The seconds until all that waits is in the log."""
    address = _waiting(broker, count, folder.name)
    collector = MqttCollector(
        broker=address, topics=("plant/#",), qos=1, client_id=folder.name, clean_session=False, reconnect=True
    )
    stop, log = threading.Event(), CollectedLog(folder)
    thread = threading.Thread(target=collect, args=(collector, LogWriter(folder), stop))
    began = time.perf_counter()
    thread.start()
    while log.end() < count:
        time.sleep(0.005)
    taken = time.perf_counter() - began
    stop.set()
    thread.join()
    return taken


def _alone(broker: MqttBroker, count: int, client_id: str) -> float:
    """The seconds until a client has received, and acknowledged, all that waits."""
    address = _waiting(broker, count, client_id)
    client, seen = address.client(client_id, clean_session=False), list[bytes]()
    client.on_message = lambda _client, _data, message: seen.append(message.payload)
    began = time.perf_counter()
    address.connect(client)
    client.loop_start()
    while len(seen) < count:
        time.sleep(0.005)
    taken = time.perf_counter() - began
    client.disconnect()
    client.loop_stop()
    return taken


def _read(bench: Bench, source: Callable[[DataStreamSource], DataStream]) -> float:
    """The seconds of a run that counts the rows of a source."""
    with bench.place() as folder:
        stream = source(StreamBuilder.data_stream("bench", "collected"))
        job = stream.filter("celsius > 0").to_delta("out").build()
        began = time.perf_counter()
        job.run(RunOptions(home=Home(folder), driver=bench.driver))
        return time.perf_counter() - began
