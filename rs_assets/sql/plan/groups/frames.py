"""Frames of OVER: ROWS or RANGE BETWEEN ... PRECEDING AND CURRENT ROW."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from rs_assets.sql.plan.planner import Planner
from rs_assets.sql.read.durations import duration
from rs_assets.sql.read.lexer import CALL

NONE: Final = timedelta(0)
FORM: Final = "SUM(x) OVER (PARTITION BY a ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)"


@dataclass(frozen=True, slots=True)
class Frame:
    """The frame of a window; with only a `reach`, as for LAG, at least that many previous rows."""

    before: int | None = None
    within: timedelta | None = None
    peers: bool = True
    reach: bool = False

    def joined(self, other: Frame) -> Frame | None:
        """The frame that fits both; None if there is none."""
        if self.reach and other.reach:
            return max(self, other, key=lambda each: each.before or 0)
        one, reach = (other, self) if self.reach else (self, other)
        if reach.reach:
            return one if not one.peers and one.before is not None and one.before >= (reach.before or 0) else None
        return one if one == other else None


def frame_of(planner: Planner, window: Any) -> Frame:
    """The frame of the window of a call."""
    name, call = named(window)
    if name == "LAG":
        return Frame(before=offset(planner, call), peers=False, reach=True)
    spec = window.args.get("spec")
    if spec is None:
        return Frame()
    kind = _word(spec, "kind")
    if spec.args.get("exclude") is not None or kind not in ("ROWS", "RANGE"):
        raise planner.error("OVER needs ROWS or RANGE without EXCLUDE", window, remedy=FORM)
    end = spec.args.get("end")
    if end is not None and _word(spec, "end") != "CURRENT ROW":
        raise planner.error(
            "a frame of OVER must end at the current row",
            end if hasattr(end, "walk") else window,
            remedy="write AND CURRENT ROW",
        )
    return _bounded(planner, window, kind, spec)


def _word(spec: Any, part: str) -> str:
    """The keywords of a bound of OVER, in upper case; empty for a number or an interval."""
    found = spec.args.get(part)
    return found.upper() if isinstance(found, str) else ""


def _bounded(planner: Planner, window: Any, kind: str, spec: Any) -> Frame:
    start, peers = spec.args.get("start"), kind == "RANGE"
    if _word(spec, "start") == "CURRENT ROW":
        return Frame(within=NONE) if peers else Frame(before=0, peers=False)
    if _word(spec, "start_side") != "PRECEDING":
        raise planner.error("a frame of OVER must begin before the current row", window, remedy=FORM)
    if _word(spec, "start") == "UNBOUNDED":
        return Frame(peers=peers)
    if peers:
        if start.key != "interval":
            raise planner.error(
                "RANGE needs an interval", start, remedy="RANGE BETWEEN INTERVAL '10' MINUTE PRECEDING AND CURRENT ROW"
            )
        return Frame(within=duration(planner.text, start, window))
    return Frame(
        before=_whole(planner, start, "ROWS needs a number of rows", "ROWS BETWEEN 9 PRECEDING AND CURRENT ROW"),
        peers=False,
    )


def _whole(planner: Planner, tree: Any, what: str, remedy: str) -> int:
    if tree.key != "literal" or tree.is_string or not tree.name.isdigit():
        raise planner.error(what, tree, remedy=remedy)
    return int(tree.name)


def named(window: Any) -> tuple[str, Any]:
    """The function before OVER, and its call."""
    call = window.this.this if window.this.key in ("filter", "ignorenulls", "respectnulls") else window.this
    return (call.name.removeprefix(CALL) if call.key == "anonymous" else ""), call


def offset(planner: Planner, call: Any) -> int:
    """The number of rows that LAG looks back."""
    arguments = call.expressions
    if not 1 <= len(arguments) <= 3:
        raise planner.error(f"LAG takes 1 to 3 arguments, not {len(arguments)}", call, remedy="LAG(x, 1, 0)")
    return (
        _whole(planner, arguments[1], "the offset of LAG must be a number of rows", "LAG(x, 1)")
        if len(arguments) > 1
        else 1
    )
