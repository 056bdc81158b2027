"""What becomes of a request to rescale a running stream: done, refused, replaced, too old, or without a driver."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import orjson
import pytest

from rs_assets import RunOptions, StreamBuilder, Time
from rs_assets.catalog import requests
from rs_assets.catalog.desired_state import request_run
from rs_assets.catalog.lease import Lease, read_lease
from rs_assets.common.files import write_atomically
from rs_assets.common.home import Home
from rs_assets.errors import CheckpointError, ConfigurationError, EngineError, LeaseLostError, PipelineBusyError
from rs_assets.runtime.run import rescale_requests as asking
from rs_assets.runtime.run.rescale_requests import answer_requests, rescale_running
from rs_assets.runtime.run.rescaled import RescaleReport

REPORT = RescaleReport(pipeline="test.ids", before=2, after=5, state_rows={"q": 7}, seconds=3.0, waited_s=0.5)


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr(asking, "LOOK_S", 0.005)


@pytest.fixture
def options(tmp_path):
    return RunOptions(home=Home(tmp_path / "rs"), run_id="asker")


@pytest.fixture
def topology():
    rows = StreamBuilder.data_stream("test", "ids").from_array([{"id": 1, "ts": 1_000}])
    return rows.distinct("id", within=Time.minutes(1), time_field="ts").to_print().build().topology


class Driver:
    """The driver of a stream, as far as requests see it."""

    def __init__(self, options, does=lambda partitions: replace(REPORT, after=partitions), ttl=30.0):
        self.folder, self.does, self.done = options.home.job("test", "ids"), does, []
        self.lease = Lease.acquire(
            options.home.leases, pipeline="test.ids", run_id="stream", ttl=timedelta(seconds=ttl)
        )
        request_run(self.folder, "stream")
        held = SimpleNamespace(token=self.lease.token, check=lambda: None)
        self.session = SimpleNamespace(folder=self.folder, held=held)

    def rescale(self, partitions):
        self.done.append(partitions)
        return self.does(partitions)

    def end(self):
        self.lease.__exit__(None, None, None)

    def when_asked(self, do):
        """Do something on another thread as soon as there is a request."""

        def wait():
            pause = threading.Event()
            while requests.asked(self.folder, "rescale") is None:
                pause.wait(0.005)
            do()

        thread = threading.Thread(target=wait)
        thread.start()
        return thread


@pytest.fixture
def stream(options):
    made = Driver(options)
    yield made
    made.end()


def asked(topology, options, stream, do):
    """The outcome of a request, when something is done as soon as it is there."""
    meanwhile = stream.when_asked(do)
    outcome = rescale_running(topology, options, 5, reason="a test")
    meanwhile.join()
    return outcome


def test_request_to_a_running_stream_is_carried_out_and_answered_with_the_figures(topology, options, stream):
    outcome = asked(topology, options, stream, lambda: answer_requests(stream))
    assert (outcome.report, outcome.refused, outcome.run_id) == (REPORT, None, "stream")
    assert [path.name for path in stream.folder.iterdir() if "rescale" in path.name] == ["rescale.answers"]
    # It is not there a second time.
    answer_requests(stream)
    assert stream.done == [5]


def test_refusal_of_the_driver_has_its_reason_and_its_remedy(topology, options, stream):
    def refuse(_):
        raise CheckpointError("rows differ", remedy="stop it", file="a/b")

    stream.does = refuse
    refused = asked(topology, options, stream, lambda: answer_requests(stream)).refused
    assert (type(refused), str(refused)) == (CheckpointError, "rows differ [file=a/b]\n  remedy: stop it")


@pytest.mark.parametrize("error", [ValueError("odd"), EngineError("ValueError: odd")])
def test_failure_of_another_kind_is_an_error_of_the_engine(topology, options, stream, error):
    def fail(_):
        raise error

    stream.does = fail
    refused = asked(topology, options, stream, lambda: answer_requests(stream)).refused
    assert (type(refused), refused.what) == (EngineError, "ValueError: odd")


@pytest.mark.parametrize("state", ["never ran", "a run that ends", "stopped", "ended"])
def test_without_a_running_stream_nothing_is_requested(topology, options, state):
    if state != "never ran":
        stream = Driver(options)
        desired = request_run(stream.folder, "another" if state == "a run that ends" else "stream")
        if state == "stopped":
            content = {name: getattr(desired, name) for name in desired.__dataclass_fields__}
            write_atomically(stream.folder / "wish.json", orjson.dumps({**content, "stopped": True}))
        if state == "ended":
            stream.end()
    assert rescale_running(topology, options, 5, reason="a test") is None
    assert requests.asked(options.home.job("test", "ids"), "rescale") is None
    if state in ("a run that ends", "stopped"):
        stream.end()


def test_invalid_number_is_not_requested(topology, options, stream):
    with pytest.raises(ConfigurationError, match="not a number of partitions"):
        rescale_running(topology, options, 0, reason="a test")
    assert requests.asked(stream.folder, "rescale") is None


def test_request_that_cannot_be_written_is_refused_in_words(topology, options, stream, monkeypatch):
    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(requests, "write_atomically", denied)
    with pytest.raises(CheckpointError, match="cannot be written: Permission denied") as refused:
        rescale_running(topology, options, 5, reason="a test")
    assert refused.value.remedy == "request it as the user who runs the stream"


def changed(stream, **content):
    """Another content of the pending request."""
    pending = requests.asked(stream.folder, "rescale")
    write_atomically(stream.folder / "rescale.wanted", orjson.dumps({**pending, **content}))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (lambda: {"token": 0}, "the rescale was requested of another run of the pipeline"),
        (
            lambda: {"at": (datetime.now(UTC) - timedelta(hours=2)).isoformat()},
            "the rescale was requested 120 minutes ago",
        ),
        (lambda: {"process_started": 0.0}, "the process that requested the rescale has ended"),
    ],
)
def test_outdated_request_is_refused_and_not_carried_out(topology, options, stream, content, told):
    def do():
        changed(stream, **content())
        answer_requests(stream)

    outcome = asked(topology, options, stream, do)
    assert (type(outcome.refused), outcome.refused.what) == (PipelineBusyError, told)
    assert stream.done == []
    assert outcome.refused.remedy.startswith("request it again")
    assert asked(topology, options, stream, lambda: answer_requests(stream)).report == REPORT


def test_driver_that_was_overtaken_leaves_a_request_to_the_later_run(stream):
    requests.ask(stream.folder, "rescale", reason="a test", partitions=5, token=stream.lease.token + 1)
    answer_requests(stream)
    assert requests.asked(stream.folder, "rescale")["partitions"] == 5
    assert stream.done == []


def test_driver_that_has_lost_its_lease_carries_nothing_out(topology, options, stream):
    def lost():
        raise LeaseLostError("another driver has taken over", remedy="nothing to do")

    stream.session.held.check = lost
    outcome = asked(topology, options, stream, lambda: answer_requests(stream))
    assert (type(outcome.refused), stream.done) == (LeaseLostError, [])


def test_later_request_takes_the_place_of_one_that_is_not_taken(topology, options, stream):
    def do():
        first = requests.asked(stream.folder, "rescale")
        requests.ask(stream.folder, "rescale", reason="b", partitions=7, token=first["token"])

    outcome = asked(topology, options, stream, do)
    assert outcome.replaced
    assert "a later request to rescale took the place of this one" in outcome.refused.what
    assert requests.asked(stream.folder, "rescale")["partitions"] == 7
    answer_requests(stream)
    assert stream.done == [7]


def test_later_request_waits_for_one_that_is_carried_out(topology, options, stream):
    """Both are answered, each with its own number."""

    def with_another(partitions):
        if partitions == 5:
            requests.ask(stream.folder, "rescale", reason="b", partitions=7, token=stream.lease.token)
        return replace(REPORT, after=partitions)

    stream.does = with_another
    assert asked(topology, options, stream, lambda: answer_requests(stream)).report.after == 5
    second = requests.asked(stream.folder, "rescale")["id"]
    assert requests.progress(stream.folder, "rescale", second).state == "pending"
    answer_requests(stream)
    assert requests.progress(stream.folder, "rescale", second).answer["done"]["after"] == 7


@pytest.mark.parametrize("taken", [False, True])
def test_driver_that_ends_before_its_answer_is_gone(topology, options, stream, taken):
    def do():
        if taken:
            requests.take(stream.folder, "rescale")
        stream.end()

    outcome = asked(topology, options, stream, do)
    assert outcome.gone
    assert "its driver ended before it answered" in outcome.refused.what
    assert requests.asked(stream.folder, "rescale") is None


def test_answer_of_a_driver_that_ends_at_once_counts(topology, options, stream):
    def do():
        answer_requests(stream)
        stream.end()

    assert asked(topology, options, stream, do).report == REPORT


def test_driver_without_signs_of_life_is_gone(topology, options):
    stream = Driver(options, ttl=0.2)
    outcome = rescale_running(topology, options, 5, reason="a test")
    assert outcome is None or outcome.gone
    stream.end()


def test_request_that_is_not_taken_in_time_is_withdrawn(topology, options, stream, monkeypatch):
    monkeypatch.setattr(asking, "PATIENCE_S", 0.02)
    outcome = rescale_running(topology, options, 5, reason="a test")
    assert "its driver did not answer within 0 s" in outcome.refused.what
    assert (outcome.gone, requests.asked(stream.folder, "rescale")) == (False, None)
    monkeypatch.undo()
    assert outcome.refused.remedy == "request it again, or stop the stream first"
    assert asked(topology, options, stream, lambda: answer_requests(stream)).report == REPORT


def test_interrupted_wait_withdraws_its_request(topology, options, stream, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(requests, "progress", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rescale_running(topology, options, 5, reason="a test")
    assert requests.asked(stream.folder, "rescale") is None


def test_withdrawal_leaves_the_request_of_another(stream):
    first = requests.ask(stream.folder, "rescale", reason="a")
    second = requests.ask(stream.folder, "rescale", reason="b")
    requests.withdraw(stream.folder, "rescale", first)
    assert requests.asked(stream.folder, "rescale")["id"] == second


def test_request_that_a_killed_driver_had_taken_is_removed_by_the_next_start(stream):
    taken = requests.ask(stream.folder, "rescale", reason="a")
    requests.take(stream.folder, "rescale")
    assert requests.progress(stream.folder, "rescale", taken).state == "taken"
    requests.clear(stream.folder, "rescale")
    assert requests.progress(stream.folder, "rescale", taken).state == "gone"


def test_only_the_newest_answers_are_kept_and_damaged_ones_are_none(stream):
    for number in range(requests.KEPT + 2):
        requests.answer(stream.folder, "rescale", f"r{number}", {"done": {}})
    states = [requests.progress(stream.folder, "rescale", f"r{number}").state for number in range(4)]
    assert states == ["gone", "gone", "answered", "answered"]
    (stream.folder / "rescale.answers").write_text("[1, {")
    assert requests.progress(stream.folder, "rescale", "r3").state == "gone"


def test_driver_ignores_its_folder_without_a_request_and_refuses_a_damaged_one(stream):
    answer_requests(stream)
    (stream.folder / "rescale.wanted").write_text("{")
    answer_requests(stream)
    assert (stream.done, requests.asked(stream.folder, "rescale")) == ([], None)


def test_lease_of_the_stream_is_read_again_only_now_and_then(topology, options, stream, monkeypatch):
    reads, looks, progress = [], [], requests.progress

    def counted(*args):
        reads.append(1)
        return read_lease(*args)

    def looked(*args):
        looks.append(1)
        if len(looks) == 40:
            answer_requests(stream)
        return progress(*args)

    monkeypatch.setattr(asking, "read_lease", counted)
    monkeypatch.setattr(requests, "progress", looked)
    assert rescale_running(topology, options, 5, reason="a test").report == REPORT
    assert len(reads) < len(looks) / 2
