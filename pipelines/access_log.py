"""A web server's access log: requests by page and status, and the sessions of its clients.

`make run` runs it through Dagster. The log is the file that RS_ACCESS_LOG names, else `input/access.log` in RS_HOME;
`python -m pipelines.access_log_data` writes one of 100,000 lines.
"""

from __future__ import annotations

import os
from pathlib import Path

from rs_assets import Pipeline, SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.common.home import Home

# The combined log format of Apache and nginx.
COMBINED = (
    r"(?P<client>\S+) \S+ \S+ \[(?P<time>[^\]]+)\] "
    r'"(?P<method>[A-Z]+) (?P<path>\S+)[^"]*" (?P<status>[0-9]{3}) (?P<bytes>[0-9]+|-) '
    r'"[^"]*" "[^"]*"'
)
FIELDS = "client string, time timestamp, method string, path string, status int, bytes string"
TIME_FORMAT = "dd/MMM/yyyy:HH:mm:ss Z"


def default_log() -> Path:
    """The path of the log."""
    return Path(os.environ.get("RS_ACCESS_LOG") or Home.default().root / "input" / "access.log")


def access_log(log: Path, *, job: str = "access_log", max_rows_per_batch: int = 20_000) -> Pipeline:
    """The pipeline over `log`, which may grow while it runs."""
    requests = (
        StreamBuilder.data_stream("web", job)
        .from_file(
            log,
            format="text",
            pattern=COMBINED,
            schema=FIELDS,
            time_format=TIME_FORMAT,
            tail=True,
            bad_records="dead_letter",
            max_rows_per_batch=max_rows_per_batch,
            name="log",
        )
        .with_fields(bytes="coalesce(try_cast(bytes AS bigint), 0)", error="CAST(status >= 400 AS int)", name="typed")
    )
    (
        requests.window(TumblingWindow.of(Time.minutes(10), "time"), name="page_windows")
        .group_by("status", "path")
        .count("requests")
        .sum("bytes")
        .sum("error", "errors")
        .water_mark(Time.minutes(5))
        .to_data_stream()
        .to_delta("requests_by_page", name="requests_by_page")
    )
    return (
        requests.window(SessionWindow.of(Time.minutes(30), "time"), name="client_sessions")
        .group_by("client")
        .count("requests")
        .sum("bytes")
        .count_distinct("path", "pages")
        .water_mark(Time.minutes(5))
        .to_data_stream()
        .to_delta("sessions", name="sessions")
        .build(description="Requests, bytes and errors by page, and the sessions of each client, from an access log.")
    )


pipeline = access_log(default_log())
