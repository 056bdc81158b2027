"""What the errors of a processor at work advise is taken."""

import pytest

from rs_assets import Processor, Time, ValueStore
from rs_assets.errors import RsError
from rs_assets.testing import ProcessorTest


class Does(Processor):
    """Calls a function for each row."""

    seen = ValueStore("n int")

    def __init__(self, how):
        self.how = how

    def process(self, key, row, context):
        self.how(self, context)

    def tick(self, key, at, context): ...


def piped(how, **settings):
    settings = {"time_field": "ts", **settings}
    ProcessorTest(Does(how), keys="k", schema="n int", **settings).pipe({"k": 1, "ts": 0})


def advanced(**settings):
    test = ProcessorTest(Does(lambda self, context: None), keys="k", schema="n int", **settings)
    if "ts" in settings.values():
        test.advance_stream_time(0)
    return test


CASES = [
    (
        lambda: piped(lambda self, c: c.forward({"n": 1}, to="late")),
        "declare it: outputs={'late': 'n bigint'}",
        lambda: piped(lambda self, c: c.forward({"n": 1}, to="late"), outputs={"late": "n bigint"}),
    ),
    (
        lambda: piped(lambda self, c: c.schedule(10, self.tick)),
        "pass a time: Time.minutes(10)",
        lambda: piped(lambda self, c: c.schedule(Time.minutes(10), self.tick)),
    ),
    (
        lambda: piped(lambda self, c: c.schedule_at(10, self.tick)),
        "pass a time: context.time + Time.minutes(30)",
        lambda: piped(lambda self, c: c.schedule_at(c.time + Time.minutes(30), self.tick)),
    ),
    (
        lambda: piped(lambda self, c: c.cancel(lambda key, at, context: None)),
        "pass a method of the class: self.tick",
        lambda: piped(lambda self, c: c.cancel(self.tick)),
    ),
    (
        lambda: piped(lambda self, c: c.cancel(self.tick), time_field=None),
        "name the field of its event time, time_field='ts', or let it go by the clock, tick=Time.seconds(1)",
        lambda: (
            piped(lambda self, c: c.cancel(self.tick)),
            piped(lambda self, c: c.cancel(self.tick), time_field=None, tick=Time.seconds(1)),
        ),
    ),
    (
        lambda: advanced().advance_stream_time(0),
        "name its field: ProcessorTest(..., time_field='ts')",
        lambda: advanced(time_field="ts"),
    ),
    (
        lambda: advanced().advance_wall_clock(Time.seconds(1)),
        "ProcessorTest(..., tick=Time.seconds(1))",
        lambda: advanced(tick=Time.seconds(1)).advance_wall_clock(Time.seconds(1)),
    ),
]


@pytest.mark.parametrize(("wrong", "remedy", "right"), CASES)
def test_what_an_error_of_a_processor_advises_is_taken(wrong, remedy, right):
    with pytest.raises(RsError) as caught:
        wrong()
    assert caught.value.remedy == remedy
    right()
