"""Flink as a peer, without its wheel: the SQL that it gets, its answers, and what is told where it cannot be had."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from benchmarks import flink as benchmark
from benchmarks.flink import Both, Peer, Theirs, lines_below
from benchmarks.measure import Figure, Taken
from benchmarks.nexmark import State
from benchmarks.peers import flink, flink_sql
from benchmarks.peers.flink import LOCK, Flink, FlinkRun, parse
from benchmarks.peers.flink_events import deal
from benchmarks.peers.flink_sql import CHANGING, FlinkSql
from benchmarks.peers.peer import PeerError
from benchmarks.report import as_table, own_tables
from pipelines.nexmark.generator import Settings, write
from pipelines.nexmark.queries import QUERIES
from pipelines.nexmark.schemas import SCHEMAS, SIDE_INPUT

EVENTS, ROWS = Path("/in/events"), Path("/out/rows")


def sql(query: str) -> FlinkSql:
    return FlinkSql.of(query, events=EVENTS, rows=ROWS)


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_is_made_of_what_flink_knows(query: str) -> None:
    made = sql(query)
    text = "\n".join((*made.prepare, made.insert))
    assert made.insert.startswith(f"INSERT INTO {query}")
    assert all(statement.startswith(("CREATE TABLE", "CREATE VIEW")) for statement in made.prepare)
    assert not re.search(r"\$\{|delta|max-files|--|;", text)
    assert re.match(r"SELECT COUNT\(\*\) FROM \(SELECT\s", made.count)
    assert ("'blackhole'" in text) is (query in CHANGING)
    assert (f"'{ROWS}'" in text) is (query not in CHANGING)


def test_tables_have_our_watermarks_and_times_with_a_zone() -> None:
    bids = next(statement for statement in sql("q0").prepare if statement.startswith("CREATE TABLE bids"))
    assert "date_time TIMESTAMP_LTZ(3)" in bids
    assert "WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND" in bids
    assert "'path' = '/in/events/bids', 'format' = 'json'" in bids


def test_what_is_replaced_must_be_there() -> None:
    with pytest.raises(ValueError, match="the SQL has no 'b' any more"):
        flink_sql._replaced("a", (("b", "c"),))


def test_the_docs_tell_what_differs() -> None:
    told = Path(__file__).parents[2].joinpath("docs", "nexmark.md").read_text().split("## Compared with Flink")[1]
    assert re.findall(r"^\| (q\d+) \|", told, flags=re.MULTILINE) == list(flink_sql.DIFFERS)


def test_each_file_of_flinks_goes_through_all_of_the_time(tmp_path: Path) -> None:
    events = write(tmp_path / "events", Settings(events=1001, files=3))
    dealt = deal(events, tmp_path / "dealt", files=2)
    for kind in SCHEMAS:
        given = "".join(path.read_text() for path in sorted((events / kind).iterdir())).splitlines()
        one, two = ((dealt / kind / f"part-{n}.jsonl").read_text().splitlines() for n in range(2))
        assert (one, two) == (given[::2], given[1::2])
    assert (dealt / SIDE_INPUT).read_text().splitlines()[0] == "0,value-0"


def test_each_package_is_pinned_and_has_a_hash() -> None:
    packages = LOCK.read_text().replace("\\\n", "").splitlines()
    pinned = [line for line in packages if line and not line.startswith("#")]
    assert all(re.match(r"[a-z0-9-]+==\S+ +--hash=sha256:", line) for line in pinned)
    assert pinned[0].startswith(f"apache-flink=={flink.VERSION} ")


def test_answers_are_read() -> None:
    assert parse('{"seconds": 1.5}', cpu_s=2.0) == FlinkRun(seconds=1.5, cpu_s=2.0)
    assert parse('{"seconds": 1.5, "value": 7}', cpu_s=2.0).value == 7
    with pytest.raises(PeerError, match="SQL validation failed"):
        parse('{"error": "SQL validation failed. | no such table"}', cpu_s=0)
    with pytest.raises(PeerError, match="ended without an answer"):
        parse("", cpu_s=0)


PROGRAM = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["last"] == "END":
        break
    print(json.dumps({"seconds": 1.0, "value": len(request["statements"])}), flush=True)
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A process that answers as the program in Flink's environment does."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    monkeypatch.setattr(flink, "PROGRAM", program)
    monkeypatch.setattr(flink, "java_home", lambda: tmp_path)
    with Flink(Path(sys.executable), tmp_path) as running:
        yield running


def test_one_process_answers_all_requests_and_its_end_is_told(stand_in) -> None:
    assert [stand_in.run(("a",) * n, "SELECT 1").value for n in (1, 2)] == [1, 2]
    with pytest.raises(PeerError, match="Flink ended without an answer"):
        stand_in.run((), "END")


@pytest.fixture
def no_network(tmp_path, monkeypatch):
    """An environment that is made, and a pip that reaches nothing."""
    failed = subprocess.CompletedProcess(
        [], 1, stdout="", stderr="WARNING: retrying\nERROR: No matching distribution\n"
    )
    monkeypatch.setenv("RS_PEER_FLINK", str(tmp_path / "flink"))
    monkeypatch.setattr(flink.venv, "create", lambda place, **_: place.mkdir())
    monkeypatch.setattr(flink.subprocess, "run", lambda *_, **__: failed)
    return tmp_path


def test_without_its_wheel_flink_is_left_out_with_a_sentence(no_network) -> None:
    with ExitStack() as stack:
        peer = Peer.start(stack, no_network)
    told = f"Flink {flink.VERSION} is left out: pip could not install its wheel: ERROR: No matching distribution"
    assert (peer.running, peer.lacking) == (None, told)
    figure = Both(measured=measured(), rows=5, ours=(Taken(seconds=2, cpu_s=3),), flinks=(), why=told).figure()
    assert (figure.what, figure.value, figure.unit) == ("q0: ours alone", 50, "rows/s")
    assert told in figure.note


def test_an_environment_is_made_once(no_network, monkeypatch) -> None:
    good = subprocess.CompletedProcess([], 0, stdout="", stderr="")
    monkeypatch.setattr(flink.subprocess, "run", lambda *_, **__: good)
    assert flink.install() == flink.folder() / "bin" / "python"
    monkeypatch.setattr(flink.venv, "create", pytest.fail)
    assert flink.install().parent.parent == no_network / "flink"


class Answering:
    """A Flink that wrote `rows` of a query, or counted as many."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def run(self, statements: tuple[str, ...], last: str) -> FlinkRun:
        if last.startswith("SELECT"):
            return FlinkRun(seconds=1, cpu_s=1, value=self.rows or None)
        found = re.search(r"'path' = '([^']+rows)'", "".join(statements))
        if found:
            Path(found[1]).mkdir()
            (Path(found[1]) / "part-0").write_text("{}\n" * self.rows)
            (Path(found[1]) / ".part-1.inprogress").write_text("{}\n")
        return FlinkRun(seconds=1, cpu_s=1)


@pytest.mark.parametrize(
    ("query", "rows", "refusal"),
    [
        ("q0", 3, ""),
        ("q0", 2, "not compared: our run has 3 rows, Flink's 2"),
        ("q17", 3, ""),
        ("q17", 0, "not compared: our run has 3 rows, Flink's 0"),
        ("q12", 0, ""),
    ],
)
def test_runs_are_compared_if_their_rows_are_equal(tmp_path, query: str, rows: int, refusal: str) -> None:
    events = write(tmp_path / "events", Settings(events=100, files=1))
    theirs = Theirs(query=query, events=events, flink=Answering(rows), scratch=tmp_path)
    assert theirs.refusal(3) == refusal
    assert not (tmp_path / "rows").exists()


def test_a_job_that_fails_leaves_our_figure(tmp_path) -> None:
    """Of two pairs Flink gets through the first one only."""
    events = write(tmp_path / "events", Settings(events=100, files=1))
    answers = iter([FlinkRun(seconds=1, cpu_s=1)] * 2)

    def run(*_: object) -> FlinkRun:
        try:
            return next(answers)
        except StopIteration:
            raise PeerError("no more memory") from None

    bench = SimpleNamespace(pairs=2, warm_up=1)
    ran = SimpleNamespace(bench=bench, query="q12", events=100, folder=events, ours=lambda: 3, state=State())
    both = benchmark._both(ran, Peer(running=SimpleNamespace(run=run)), tmp_path)
    assert (both.why, len(both.ours), both.flinks) == ("Flink: no more memory", 2, ())


def test_what_flink_has_not_committed_is_not_counted(tmp_path: Path) -> None:
    (tmp_path / "dt=1").mkdir()
    for name in ("part-0", "dt=1/part-0", ".part-1.inprogress", "_SUCCESS"):
        (tmp_path / name).write_text("{}\n")
    assert lines_below(tmp_path) == 2


def measured(query: str = "q0") -> SimpleNamespace:
    return SimpleNamespace(query=query, events=100, state=State(kept={"one": (3, 1_000_000), "two": (4, 500_000)}))


def test_a_query_is_a_line_of_a_table_of_its_own() -> None:
    both = Both(
        measured=measured("q6"),
        rows=5,
        ours=(Taken(seconds=2, cpu_s=3),),
        flinks=(Taken(seconds=1, cpu_s=2), Taken(seconds=4, cpu_s=6), Taken(seconds=4, cpu_s=6)),
    )
    figure = both.figure()
    assert (figure.benchmark, figure.value, figure.unit) == (benchmark.NAME, 0.5, "x")
    title, _, head, bars, row, _ = own_tables([Figure(benchmark="b", what="w", value=1, unit="x"), figure])
    assert title == f"{benchmark.NAME}:"
    assert head.count("|") == bars.count("|") == row.count("|")
    assert row.startswith("| q6 | 50 | 7 | 1.5 | 25 | 0.50 x | 0.50 x | 5 | of rankings")


def test_what_flink_says_is_no_markup(capsys) -> None:
    figure = Figure(benchmark="b", what="w", value=1, unit="x", note="Source: [/bids]")
    Console(width=200).print(as_table([figure]))
    assert "[/bids]" in capsys.readouterr().out
