"""Detections in command lines: a thousand rules in a table, an intelligence feed of networks, a window for each rule.

Each command line is looked up in the feed and matched with the rules. `hits` has a row for each rule that holds,
`alerts` one for each rule, group and window in which enough came together, as the column `having` of the rule says.

The folder is the one that RS_SECURITY names, else `input/security` in RS_HOME; `python -m pipelines.security_data`
fills it. `rs-assets run detections -m pipelines.security` runs it; `rules.jsonl` may be replaced while it runs.
"""

from __future__ import annotations

import os
from pathlib import Path

from rs_assets import Dimension, Network, Pipeline, Rules, StreamBuilder, Time
from rs_assets.common.home import Home

COMMANDS = "ts timestamp, host string, user string, cmd string, ip string, ms bigint"
RULES = "enabled boolean, priority int, severity string, having string"
FEED = "network string, threat string"


def default_folder() -> Path:
    """The folder of the input."""
    return Path(os.environ.get("RS_SECURITY") or Home.default().root / "input" / "security")


def detections(folder: Path, *, job: str = "detections", tail: bool = True) -> Pipeline:
    """The pipeline over `commands.jsonl`, `rules.jsonl` and `feed.jsonl` of a folder."""
    rules = Rules.from_file(folder / "rules.jsonl", columns=RULES, every=Time.seconds(5))
    feed = Dimension.from_file(folder / "feed.jsonl", schema=FEED)
    commands = StreamBuilder.data_stream("security", job).from_file(
        folder / "commands.jsonl", schema=COMMANDS, tail=tail, bad_records="dead_letter", name="commands"
    )
    known = commands.dim_left_join(feed, on={"ip": Network("network")}, name="feed")
    hits = known.match(rules, form="per_match", carry=["severity", "having"], name="judge")
    hits.to_delta("hits", name="hits")
    return (
        hits.alerts("ts", carry=["severity"], water_mark=Time.minutes(1), name="alert_windows")
        .to_delta("alerts", name="alerts")
        .build(description="Which command lines rules detect, and which rules fire often enough to look at.")
    )


pipeline = detections(default_folder())
