"""A pipeline over cut input, with restarts on the way."""

from contextlib import contextmanager

from hypothesis import strategies as st

from rs_assets import StreamBuilder, Time
from rs_assets.testing import PipelineDriver


def cut(data, rows, *, least=0, most=4):
    """`rows` as batches, with as many cuts as `data` draws."""
    cuts = sorted(data.draw(st.sets(st.integers(1, len(rows) - 1), min_size=least, max_size=most)))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


@contextmanager
def driven(pipeline, driver, batches, *, restart):
    """The driver behind the end of input, and how many rows came late; `restart()` is asked behind each batch."""
    late = 0
    with PipelineDriver(pipeline, spark=driver) as running:
        for batch in batches:
            running.push(batch)
            running.step()
            if restart():
                late += running.report().rows_late
                running.restart()
        running.finish()
        yield running, late + running.report().rows_late


def fired(window, policy):
    """The rows of `window`, which fires as the `Policy` of firing_model says."""
    if policy.before is not None:
        window = window.emit_before(Time.seconds(policy.before))
    if policy.after is not None:
        window = window.emit_after(Time.seconds(policy.after), until=Time.seconds(policy.hold))
    if policy.late is not None:
        window = window.late_firings(policy.late)
    if policy.limit is not None:
        window = window.suppress(Time.seconds(policy.limit))
    return window.water_mark(Time.seconds(policy.water_mark)).to_data_stream()


def of_each(policies, windows, *, job, schema):
    """A pipeline with `windows(stream, name, policy)` for each policy, each with a sink of its own."""
    built = stream = StreamBuilder.data_stream("test", job).from_file("in.jsonl", schema=schema)
    for name, policy in policies.items():
        built = windows(stream, name, policy).to_print(name=f"{name}_out")
    return built.build()


def emitted(pipeline, driver, names, batches, *, restart):
    """The rows of the sinks `<name>_out`, by name, at the end of input; a restart follows the batch `restart`."""
    found = {name: [] for name in names}

    def take():
        for name in found:
            found[name] += running.take(f"{name}_out")

    with PipelineDriver(pipeline, spark=driver) as running:
        for number, batch in enumerate(batches):
            running.push(batch)
            running.step()
            take()
            if number == restart:
                running.restart()
        running.finish()
        take()
    return found
