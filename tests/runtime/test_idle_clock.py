"""Windows by arrival time fire while nothing arrives."""

import threading
from dataclasses import replace
from datetime import timedelta

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.engine.source.memory import MemoryChannel


def test_should_fire_an_arrival_time_window_without_further_input(options):
    out, fired = MemoryChannel(), threading.Event()
    channel = MemoryChannel(schema="page string")
    window = TumblingWindow.of(Time.seconds(1))
    stream = StreamBuilder.data_stream("shop", "idle").from_memory(channel)
    job = stream.window(window).group_by("page").count("n").to_data_stream().to_memory(out).build()

    def listen(batch):
        if any(batch.rows_out.values()):
            fired.set()

    with job.start(replace(options, interval=timedelta(milliseconds=50), on_progress=listen)):
        channel.put({"page": "/"}, {"page": "/"})
        assert fired.wait(60), "no window fired"
    assert sum(row["n"] for row in out.rows()) == 2
