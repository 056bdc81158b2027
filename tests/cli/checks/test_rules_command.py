"""`rs-assets rules`, and the example of detections in command lines, which it shows."""

import ipaddress
import json
import re
from collections import Counter, defaultdict
from datetime import datetime

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

from pipelines.security import detections
from pipelines.security_data import write
from rs_assets.cli.main import main

MODULE = """
from rs_assets import Rules, StreamBuilder

lines = StreamBuilder.data_stream("test", "judged").from_file("in.jsonl", schema="k string, ms bigint")
rules = Rules.of({"slow": "(ms,>,100)&!(k,in,'a,b')", "shell": r"(k,regex,'\\.sh$')", "never": "(ms,<,0)"})
pipeline = lines.match(rules, name="judge").to_print().build()
"""


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "judged_rules.py").write_text(MODULE)
    (tmp_path / "rows.jsonl").write_text('{"k": "x.sh", "ms": 200}\n{"k": "a", "ms": 200}\n')

    def run(*arguments):
        return CliRunner().invoke(main, ["rules", "judged", "-m", "judged_rules", *arguments])

    return run


def test_rules_are_listed_tested_and_explained(command):
    assert command().output.startswith("3 rules, 1 pattern, ")
    told = json.loads(command("--test", "rows.jsonl", "--json").output)
    assert told == {"rows": [["shell", "slow"], []], "never": ["never"], "left_out": {}}
    shown = command("--test", "rows.jsonl", "--explain", "slow").output.splitlines()
    assert shown[1:4] == ["  alternative 1 holds", "    yes  ms is from 101", "    yes  k is not one of 'a', 'b'"]
    assert shown[5:] == [
        "  alternative 1 does not hold",
        "    yes  ms is from 101",
        "    no   k is not one of 'a', 'b'",
    ]


def test_a_row_that_does_not_fit_the_fields_of_the_stream_is_refused(command, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"k": "a", "ms": 200}\n{"k": "a", "ms": 100.7}\n')
    told = command("--test", "rows.jsonl")
    assert told.exit_code
    assert "ms=100.7 is not of type bigint" in told.output


def test_rules_of_a_table_have_the_types_that_are_declared(command, tmp_path):
    rows = {"rule": ["on", "off"], "condition": ["(ms,>,1)"] * 2, "enabled": ["true", "false"]}
    write_deltalake(str(tmp_path / "rules"), pa.table(rows))
    table = f"Rules.from_delta({str(tmp_path / 'rules')!r}, columns='enabled boolean')"
    (tmp_path / "judged_table.py").write_text(re.sub(r"Rules\.of\(.*\)", table, MODULE))
    told = CliRunner().invoke(main, ["rules", "judged", "-m", "judged_table", "--json"])
    assert json.loads(told.output)["rules"] == ["on"]


@pytest.mark.long
def test_detections_in_command_lines_end_as_hits_and_alerts(options, tmp_path):
    """The rules of general use against a plain model, with the longest prefix of each address."""
    write(tmp_path, rows=2_000, count=300)
    detections(tmp_path, tail=False).run(options)
    hits, alerts = (
        DeltaTable(options.home.table("security", name)).to_pyarrow_table().to_pylist() for name in ("hits", "alerts")
    )
    assert {row["rule"] for row in hits} > {"script from tmp", "known threat", "download"}
    commands, feed = (
        [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        for name in ("commands", "feed")
    )
    nets = {ipaddress.ip_network(row["network"]): row["threat"] for row in feed}
    held, sums, ips = Counter(), Counter(), defaultdict(set)
    for row in commands:
        around = [net for net in nets if ipaddress.ip_address(row["ip"]) in net]
        threat = nets[max(around, key=lambda net: net.prefixlen)] if around else None
        minute = datetime.fromisoformat(row["ts"]).timestamp() // 60
        if row["user"] == "root":
            held["script from tmp", row["host"], minute // 5] += 1
        if row["cmd"].startswith(("curl ", "wget ")) and row["ms"] > 2000:
            sums["download", row["user"], minute] += row["ms"]
        if threat in ("botnet", "scanner"):
            ips["known threat", row["host"], minute // 10].add(row["ip"])
    wanted = {key for key, count in held.items() if count >= 5} | {key for key, total in sums.items() if total > 40_000}
    wanted |= {key for key, names in ips.items() if len(names) > 3}
    size = {"script from tmp": 300, "download": 60, "known threat": 600}
    made = [(row["rule"], dict(row["by"]).popitem()[1], row["start_time"].timestamp() / size[row["rule"]])
            for row in alerts if row["rule"] in size]  # fmt: skip
    assert Counter(made) == Counter(wanted)
    assert {rule for rule, *_ in wanted} == set(size)
    assert {row["rule_version"] for row in hits} == {1}


def test_remedies_of_the_command_are_taken(command, tmp_path):
    """A step that is not there, rows that are missing, an unknown rule, a file that no run has loaded."""
    assert "--step, one of: judge" in command("--step", "other").output
    assert command("--step", "judge").exit_code == 0
    assert "give a file of rows: --test rows.jsonl" in command("--explain", "slow").output
    assert "list them: --json" in command("--test", "rows.jsonl", "--explain", "nothing").output
    assert "slow" in json.loads(command("--json").output)["rules"]
    loaded = MODULE.replace("Rules.of({", 'Rules.from_file("rules.jsonl"); _ = ({')
    (tmp_path / "filed_rules.py").write_text(loaded)
    assert "run it once: rs-assets run judged" in CliRunner().invoke(
        main, ["rules", "judged", "-m", "filed_rules"]
    ).output  # fmt: skip
