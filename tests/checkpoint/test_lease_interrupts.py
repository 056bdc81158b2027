"""A lease is given back wherever Ctrl-C comes while it is taken, and a second one while it is given back."""

import signal
import sys
from contextlib import suppress
from itertools import count

import pytest

from rs_assets import StreamBuilder
from rs_assets.catalog import lease as leases
from rs_assets.catalog.lease import Lease, held_lease, read_lease
from rs_assets.catalog.lease_table import DeltaLeases
from rs_assets.common.home import Home
from rs_assets.runtime.job import opening, session
from rs_assets.runtime.options import RunOptions

PIPELINE = StreamBuilder.data_stream("shop", "hits").from_array([{"n": 1}]).to_delta("hits").build()
FILES = frozenset(module.__file__ for module in (leases, session, opening))


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(tmp_path / "rs"))
    monkeypatch.setattr(opening, "_open", lambda _: None)


class Interrupt:
    """Within this Ctrl-C comes before the line `at` of FILES that is run from `_taken` on; `came` says which it was."""

    def __init__(self, at):
        self.at, self.lines, self.taking, self.came = at, 0, False, ""

    def __enter__(self):
        sys.settrace(self.traced)
        return self

    def __exit__(self, *_):
        sys.settrace(None)

    def traced(self, frame, event, _):
        if frame.f_code.co_filename not in FILES:
            return None
        self.taking |= frame.f_code.co_name == "_taken"
        self.lines += self.taking and event == "line"
        if self.lines == self.at and not self.came:
            self.came = f"{frame.f_code.co_name}, {frame.f_lineno}"
            # Raises here, and so in the line that is looked at.
            signal.raise_signal(signal.SIGINT)
        return self.traced


def opened():
    made = opening.opened(PIPELINE.topology, RunOptions(run_id="mine"))
    sys.settrace(None)
    made.close()


def held():
    with held_lease(Home.default().leases, pipeline="shop.hits", run_id="mine"):
        sys.settrace(None)


def is_free():
    lease = read_lease(Home.default().leases, "shop.hits")
    return lease is None or lease.free


@pytest.mark.parametrize("take", [opened, held])
def test_a_lease_that_is_interrupted_at_any_line_of_being_taken_is_given_back(take):
    take()
    for line in count(1):
        with suppress(KeyboardInterrupt), Interrupt(line) as interrupt:
            take()
        assert is_free(), interrupt.came
        if not interrupt.came:
            break
    assert line > 20


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [(Lease, "_give_back"), (Lease, "_is_current"), (DeltaLeases, "tidy")],
    ids=lambda given: getattr(given, "__name__", given),
)
def test_a_lease_that_is_interrupted_again_while_it_is_given_back_is_free(monkeypatch, owner, name, behind):
    came, real, acquire = [], getattr(owner, name), Lease.acquire

    def strike():
        if came:
            came.append(name)
            signal.raise_signal(signal.SIGINT)

    def again(*given):
        if not behind:
            strike()
        result = real(*given)
        if behind:
            strike()
        return result

    def interrupted(*given, **named):
        acquire(*given, **named)
        came.append("acquire")
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(owner, name, again)
    monkeypatch.setattr(Lease, "acquire", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opened()
    assert name in came
    assert is_free()
