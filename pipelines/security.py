"""Detections in command lines: a thousand rules in a table, the addresses of an intelligence feed, alerts.

The folder is the one that RS_SECURITY names, else `input/security` in RS_HOME; `python -m pipelines.security_data`
fills it. `rs-assets run detections -m pipelines.security` runs it; `rules.jsonl` may be replaced while it runs.
"""

from __future__ import annotations

import os
from pathlib import Path

from rs_assets import Dimension, Pipeline, Rules, StreamBuilder, Time, TumblingWindow
from rs_assets.common.home import Home

COMMANDS = "ts timestamp, host string, user string, cmd string, ip string, ms bigint"
RULES = "enabled boolean, priority int, severity string"
FEED = "ip string, threat string"


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
    known = commands.dim_left_join(feed, on="ip", name="feed")
    hits = known.match(rules, form="per_match", carry=["severity"], name="judge")
    hits.to_delta("hits", name="hits")
    return (
        hits.window(TumblingWindow.of(Time.minutes(5), "ts"), name="alert_windows")
        .group_by("rule", "severity", "host")
        .count("hits")
        .water_mark(Time.minutes(1))
        .to_data_stream()
        .filter("hits >= 3", name="often")
        .to_delta("alerts", name="alerts")
        .build()
    )


pipeline = detections(default_folder())
