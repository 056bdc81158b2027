"""Options of a run: a value of another type is refused when it is given, with one that fits."""

from datetime import timedelta

import pytest

from rs_assets import Home, RunOptions, StreamBuilder, Time
from rs_assets.errors import ConfigurationError
from rs_assets.runtime.options import SavepointPolicy

WRONG = (
    (RunOptions, {"home": "/data/rs"}, {"home": Home.at("/data/rs")}),
    (RunOptions, {"interval": 5}, {"interval": Time.seconds(5)}),
    (RunOptions, {"flush_after": timedelta(-1)}, {"flush_after": Time.seconds(5)}),
    (RunOptions, {"lease_ttl": timedelta(0)}, {"lease_ttl": Time.seconds(30)}),
    (RunOptions, {"idle_timeout": 60}, {"idle_timeout": Time.minutes(10)}),
    (RunOptions, {"close_on_idle": timedelta(0)}, {"close_on_idle": None}),
    (RunOptions, {"partitions": "4"}, {"partitions": 4}),
    (RunOptions, {"max_line_bytes": 0}, {"max_line_bytes": 1_000}),
    (RunOptions, {"max_poisons": -1}, {"max_poisons": 0}),
    (RunOptions, {"preview_rows": True}, {"preview_rows": 10}),
    (RunOptions, {"reset_steps": "window"}, {"reset_steps": ("window",)}),
    (RunOptions, {"on_progress": "print"}, {"on_progress": print}),
    (RunOptions, {"connector": "java"}, {"connector": "native"}),
    (SavepointPolicy, {"every": 10}, {"every": Time.minutes(10)}),
    (SavepointPolicy, {"keep": 0}, {"keep": 10}),
)


@pytest.mark.parametrize(("kind", "wrong", "right"), WRONG, ids=[str(wrong) for _, wrong, _ in WRONG])
def test_a_value_of_another_type_is_refused_with_one_that_fits(kind, wrong, right):
    (name,) = wrong
    with pytest.raises(ConfigurationError, match=f"{name} must be ") as refused:
        kind(**wrong)
    assert refused.value.remedy.startswith(f"{name}=")
    advised = eval(refused.value.remedy.partition("=")[2])
    assert getattr(kind(**{name: advised}), name) == advised
    assert getattr(kind(**right), name) == right[name]


@pytest.mark.parametrize("given", ["/data/rs", {"partitions": 4}, 5])
def test_what_are_no_options_is_refused_before_spark_starts(given):
    pipeline = StreamBuilder.data_stream("shop", "options").from_array([{"n": 1}]).to_print().build()
    for called in (pipeline.run, pipeline.start, pipeline.savepoint, pipeline.lag, pipeline.check):
        with pytest.raises(ConfigurationError, match="options must be RunOptions, not") as refused:
            called(options=given)
    assert isinstance(eval(refused.value.remedy.partition(" runs")[0]), RunOptions)
